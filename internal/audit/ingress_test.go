package audit_test

import (
	"fmt"
	"slices"
	"testing"
)

// TestSharedIngressWithinOneResource holds that an API or a topic of nobody's which names the shards'
// resources within itself is shared by these shards, and makes no shard depend on another.
func TestSharedIngressWithinOneResource(t *testing.T) {
	const uri = "arn:aws:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${A}/invocations"
	imported := func(i int) any { return object{"Fn::ImportValue": fmt.Sprint("out", i)} }
	subbed := func(i int) any { return object{"Fn::Sub": []any{uri, object{"A": imported(i)}}} }
	joined := func(i int) any {
		return object{"Fn::Join": []any{"", []any{"arn:aws:apigateway:", object{"Ref": "AWS::Region"}, ":lambda:path/2015-03-31/functions/", imported(i), "/invocations"}}}
	}
	named := func(i int) any {
		return object{"Fn::Sub": fmt.Sprintf("arn:aws:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/arn:aws:lambda:${AWS::Region}:${AWS::AccountId}:function:worker-%d/invocations", i)}
	}
	openAPI := func(uri func(int) any) object {
		paths := object{}
		for i := range 2 {
			paths[fmt.Sprint("/", i)] = object{"get": object{"x-amazon-apigateway-integration": object{"type": "aws_proxy", "uri": uri(i)}}}
		}
		return object{"openapi": "3.0.1", "paths": paths}
	}
	inline := func(i int) any { return object{"Protocol": "sqs", "Endpoint": imported(i)} }
	for name, c := range map[string]struct {
		typ, rule  string
		properties object
	}{
		"RestApi, Sub":     {"AWS::ApiGateway::RestApi", "SD010", object{"Body": openAPI(subbed)}},
		"RestApi, Join":    {"AWS::ApiGateway::RestApi", "SD010", object{"Body": openAPI(joined)}},
		"RestApi, by name": {"AWS::ApiGateway::RestApi", "SD010", object{"Body": openAPI(named)}},
		"HTTP API":         {"AWS::ApiGatewayV2::Api", "SD010", object{"Body": openAPI(imported)}},
		"SAM API":          {"AWS::Serverless::Api", "SD010", object{"DefinitionBody": openAPI(subbed)}},
		"topic":            {"AWS::SNS::Topic", "SD011", object{"Subscription": []any{inline(0), inline(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stackSet{}
			for i := range 2 {
				st := shardStackName(fmt.Sprint("s0", i))
				s.put(st, "Worker", "AWS::Lambda::Function", object{"FunctionName": fmt.Sprint("worker-", i)})
				s.section(st, "Outputs")["O"] = object{"Value": object{"Fn::GetAtt": []any{"Worker", "Arn"}}, "Export": object{"Name": fmt.Sprint("out", i)}}
			}
			s.put(core, "Shared", c.typ, c.properties)
			r := s.run(t)
			if len(r.Findings) != 1 || r.Findings[0].Rule != c.rule || r.Findings[0].Resource.LogicalID != "Shared" || !slices.Equal(shardIDs(r.Findings[0]), []string{"s00", "s01"}) {
				t.Errorf("found %+v, want one %s of Shared", r.Findings, c.rule)
			}
		})
	}
	t.Run("integration by function name", func(t *testing.T) {
		s := stackSet{}
		s.put(core, "Shared", "AWS::ApiGatewayV2::Api", object{})
		for i := range 2 {
			s.put(shardStackName(fmt.Sprint("s0", i)), "Worker", "AWS::Lambda::Function", object{"FunctionName": fmt.Sprint("worker-", i)})
			s.put(core, fmt.Sprint("I", i), "AWS::ApiGatewayV2::Integration", object{"ApiId": object{"Ref": "Shared"}, "IntegrationUri": named(i)})
		}
		if r := s.run(t); len(r.Findings) != 1 || r.Findings[0].Rule != "SD010" || r.Findings[0].Resource.LogicalID != "Shared" {
			t.Errorf("found %+v", r.Findings)
		}
	})
}
