package audit_test

import (
	"fmt"
	"testing"
)

// inTwoShards gives two shards a function with these properties, and puts a resource of a known name
// into the core stack.
func inTwoShards(typ string, properties, shared object) stackSet {
	s := stackSet{}
	if shared != nil {
		s.put(core, "Shared", typ, shared)
	}
	for i := range 2 {
		s.put(shardStackName(fmt.Sprint("s0", i)), "Host", "AWS::Lambda::Function", properties)
	}
	return s
}

func env(key, value string) object {
	return object{"Environment": object{"Variables": object{key: value}}}
}

// TestPlainWordsAreNoReferences holds that a word that happens to be a table's name is an error only
// where a key says that a table is meant.
func TestPlainWordsAreNoReferences(t *testing.T) {
	script := func(s string) object { return object{"UserData": object{"Fn::Base64": s}} }
	for name, c := range map[string]struct {
		properties object
		want, of   string
	}{
		"the service's own name":  {env("SERVICE_NAME", "orders-api"), "review", "UN003"},
		"description":             {object{"Description": "orders-api"}, "", ""},
		"tag":                     {object{"Tags": []object{{"Key": "app", "Value": "orders-api"}}}, "", ""},
		"comment in user data":    {script("#!/bin/sh\n# starts orders-api\n"), "", ""},
		"word in user data":       {script("#!/bin/sh\nsystemctl start orders-api\n"), "review", "UN003"},
		"table in user data":      {script("export TABLE=orders-api\n"), "error", "SD002"},
		"flag in user data":       {script("run --table-name orders-api\n"), "error", "SD002"},
		"JSON in user data":       {script(`{"tableName": "orders-api"}`), "error", "SD002"},
		"variable":                {env("TABLE_NAME", "orders-api"), "error", "SD002"},
		"variable of a container": {object{"Environment": []object{{"Name": "ORDERS_TABLE", "Value": "orders-api"}}}, "error", "SD002"},
		"ARN anywhere":            {env("X", "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-api"), "error", "SD002"},
	} {
		t.Run(name, func(t *testing.T) {
			r := inTwoShards("AWS::DynamoDB::Table", c.properties, object{"TableName": "orders-api"}).run(t)
			if c.of == "" {
				if len(r.Findings) > 0 {
					t.Errorf("found %+v", r.Findings)
				}
				return
			}
			if got := levelOf(r, c.of); got != c.want || r.Findings[0].Rule != c.of {
				t.Errorf("%s is %q, want %q first in %+v", c.of, got, c.want, r.Findings)
			}
		})
	}
}

// TestEndpoints holds that what shards share by an address at AWS is judged by its type, read or not.
func TestEndpoints(t *testing.T) {
	for value, rule := range map[string]string{
		"redis://shared.abc.0001.euw1.cache.amazonaws.com:6379":                    "SD006",
		"master.shared.abc123.euw1.cache.amazonaws.com":                            "SD006",
		"shared-ab12cd.serverless.euw1.cache.amazonaws.com":                        "SD006",
		"clustercfg.shared.abc123.memorydb.eu-west-1.amazonaws.com:6379":           "SD006",
		"shared.cabc123.eu-west-1.rds.amazonaws.com":                               "SD007",
		"postgres://u:p@shared.cluster-cabc123.eu-west-1.rds.amazonaws.com/db":     "SD007",
		"shared.proxy-cabc123.eu-west-1.rds.amazonaws.com":                         "SD007",
		"https://search-shared-abcdef.eu-west-1.es.amazonaws.com":                  "SD007",
		"abcdefgh.dsql.eu-west-1.on.aws":                                           "SD007",
		"b-1.shared.abc123.c2.kafka.eu-west-1.amazonaws.com:9092":                  "SD005",
		"s3://shared-bucket/x":                                                     "SD004",
		"https://shared-bucket.s3.eu-west-1.amazonaws.com/x":                       "SD004",
		"https://s3.eu-west-1.amazonaws.com/shared-bucket/x":                       "SD004",
		"https://sqs.eu-west-1.amazonaws.com/111111111111/shared":                  "SD003",
		"shared-1234567890.eu-west-1.elb.amazonaws.com":                            "SD001",
		"https://shared-0123456789abcdef.elb.eu-west-1.amazonaws.com":              "SD001",
		"fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com":                         "SD009",
		"https://abc123.execute-api.eu-west-1.amazonaws.com/prod":                  "SD010",
		"https://sqs.eu-west-1.amazonaws.com":                                      "",
		"lambda.amazonaws.com":                                                     "",
		"https://amazoncloudwatch-agent.s3.amazonaws.com/linux/amd64/latest/x.rpm": "",
	} {
		r := inTwoShards("", env("X", value), nil).run(t)
		switch {
		case rule == "" && len(r.Findings) > 0:
			t.Errorf("%s: %+v", value, r.Findings)
		case rule != "" && (len(r.Findings) != 1 || r.Findings[0].Rule != rule || len(r.Findings[0].Shards) != 2):
			t.Errorf("%s: %+v, want %s", value, r.Findings, rule)
		}
	}
	// the reader and the writer of one cluster are one thing
	s := stackSet{}
	for i, kind := range []string{"cluster-", "cluster-ro-"} {
		s.put(shardStackName(fmt.Sprint("s0", i)), "Host", "AWS::Lambda::Function", env("X", "shared."+kind+"cabc123.eu-west-1.rds.amazonaws.com"))
	}
	if r := s.run(t); levelOf(r, "SD007") != "error" {
		t.Errorf("reader and writer: %+v", r.Findings)
	}
	// what was read is found itself
	r := inTwoShards("AWS::S3::Bucket", env("X", "s3://shared-bucket/x"), object{"BucketName": "shared-bucket"}).run(t)
	if len(r.Findings) != 1 || r.Findings[0].Resource.LogicalID != "Shared" {
		t.Errorf("%+v", r.Findings)
	}
}

// TestEqualLiterals holds that a name that several shards have at a key that says what it names is
// shown to a person.
func TestEqualLiterals(t *testing.T) {
	for _, c := range []struct {
		properties object
		want       string
	}{
		{env("TABLE_NAME", "legacy-orders"), "review"},
		{env("QUEUE", "legacy"), "review"},
		{object{"Cluster": "prod"}, "review"},
		{env("TABLE_NAME", "true"), ""},
		{env("STAGE", "prod-1"), ""},
		{env("BUCKET_COUNT", "sixteen"), ""},
	} {
		if got := levelOf(inTwoShards("", c.properties, nil).run(t), "UN003"); got != c.want {
			t.Errorf("%v: %q, want %q", c.properties, got, c.want)
		}
	}
	s := stackSet{}
	for i := range 2 {
		s.put(shardStackName(fmt.Sprint("s0", i)), "Host", "AWS::Lambda::Function", env("TABLE", fmt.Sprint("orders-", i)))
	}
	if r := s.run(t); len(r.Findings) > 0 {
		t.Errorf("different names: %+v", r.Findings)
	}
}
