package audit_test

import (
	"fmt"
	"testing"
)

// TestServerlessTemplates holds that what SAM writes in its own words is judged as what it becomes.
func TestServerlessTemplates(t *testing.T) {
	const head = "Transform: AWS::Serverless-2016-10-31\n"
	shards := func(globals, f string) map[string]string {
		m := map[string]string{}
		for i := 1; i <= 2; i++ {
			m[fmt.Sprintf("svc-c1-shard-s0%d.yaml", i)] = head + globals + "Resources:\n  F: {Type: AWS::Serverless::Function, Properties: {Handler: a.b" + f + "}}\n"
		}
		return m
	}
	const imports = "{Variables: {X: !ImportValue it}}"
	for typ, rule := range map[string]string{
		"AWS::Serverless::SimpleTable": "SD002", "AWS::Serverless::Function": "SD008", "AWS::Serverless::Api": "SD010",
		"AWS::Serverless::HttpApi": "SD010", "AWS::Serverless::StateMachine": "SD013", "AWS::Serverless::LayerVersion": "SI006",
		"AWS::Elasticsearch::Domain": "SD007", "AWS::Timestream::Table": "SD007", "AWS::RDS::GlobalCluster": "SD007",
		"AWS::Batch::JobQueue": "SD003", "AWS::MSK::ServerlessCluster": "SD005", "AWS::ElastiCache::ServerlessCache": "SD006",
	} {
		files := shards("", ", Environment: "+imports)
		files["core.yaml"] = head + "Resources:\n  It: {Type: " + typ + "}\nOutputs:\n  O: {Value: !Ref It, Export: {Name: it}}\n"
		if r := bare(t, files); r.Findings[0].Rule != rule || r.Findings[0].Resource.LogicalID != "It" {
			t.Errorf("%s: %+v, want %s", typ, r.Findings[0], rule)
		}
	}
	files := shards("Globals: {Function: {ReservedConcurrentExecutions: 800, Environment: "+imports+"}}\n", "")
	files["core.yaml"] = "Resources:\n  It: {Type: AWS::DynamoDB::Table}\nOutputs:\n  O: {Value: !Ref It, Export: {Name: it}}\n"
	r := bare(t, files)
	if levelOf(r, "SD002") != "error" || levelOf(r, "QT002") != "error" || r.Pools[0].Reserved != 1600 {
		t.Errorf("globals: %+v", r)
	}
}
