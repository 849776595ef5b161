package audit_test

import (
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// twoCells are the cores of two cells, each with a table of its own and nothing of the other's, and a shard each.
func twoCells() map[string]deployed {
	stacks := map[string]deployed{}
	for _, cell := range []string{"eu-1", "eu-2"} {
		tags := object{"cellwall:service": "orders", "cellwall:cell": cell}
		shardTags := object{"cellwall:service": "orders", "cellwall:cell": cell, "cellwall:shard": "s01"}
		stacks["orders-"+cell+"-core"] = deployed{tags: tags, template: object{
			"Resources": object{
				"Table": object{"Type": "AWS::DynamoDB::Table", "Properties": object{"TableName": "orders-" + cell + "-store"}},
				"Vpc":   object{"Type": "AWS::EC2::VPC", "Properties": object{}},
				"Param": object{"Type": "AWS::SSM::Parameter", "Properties": object{"Name": "/cellwall/orders/" + cell + "/core/vpc", "Value": object{"Ref": "Vpc"}}},
			},
			"Outputs":    object{"T": object{"Value": object{"Ref": "Table"}, "Export": object{"Name": cell + "-table"}}},
			"Parameters": object{},
		}}
		stacks["orders-"+cell+"-shard-s01"] = deployed{tags: shardTags, template: object{"Resources": object{
			"Worker": object{"Type": "AWS::Lambda::Function", "Properties": object{"FunctionName": "orders-" + cell + "-s01-worker", "Environment": object{"Variables": object{
				"TABLE": object{"Fn::ImportValue": cell + "-table"}, "VPC": "{{resolve:ssm:/cellwall/orders/" + cell + "/core/vpc}}"}}}},
		}, "Parameters": object{}}}
	}
	return stacks
}

// couplings make something of cell eu-2 depend on cell eu-1: by which rule that is found, and the resource.
var couplings = map[string]struct {
	rule, at string
	shard    string // that the path begins in, "" for the core
	cut      func(s map[string]deployed)
}{
	"import": {"SC001", "T", "s01", func(s map[string]deployed) {
		setIn(s, "orders-eu-2-shard-s01", object{"Fn::ImportValue": "eu-1-table"})
	}},
	"stack output": {"SC001", "T", "s01", func(s map[string]deployed) {
		setIn(s, "orders-eu-2-shard-s01", object{"Fn::GetStackOutput": object{"StackName": "orders-eu-1-core", "OutputName": "T"}})
	}},
	"typed parameter": {"SC002", "Param", "s01", func(s map[string]deployed) {
		s["orders-eu-2-shard-s01"].template["Parameters"].(object)["P"] = object{"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cellwall/orders/eu-1/core/vpc"}
		setIn(s, "orders-eu-2-shard-s01", object{"Ref": "P"})
	}},
	"dynamic reference": {"SC002", "Param", "s01", func(s map[string]deployed) {
		setIn(s, "orders-eu-2-shard-s01", "{{resolve:ssm:/cellwall/orders/eu-1/core/vpc}}")
	}},
	"parameter of a cell that was not read": {"SC002", "", "s01", func(s map[string]deployed) {
		delete(s, "orders-eu-1-core")
		setIn(s, "orders-eu-2-shard-s01", "{{resolve:ssm:/cellwall/orders/eu-1/core/vpc}}")
	}},
	"ARN": {"SC003", "Table", "s01", func(s map[string]deployed) {
		setIn(s, "orders-eu-2-shard-s01", "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-eu-1-store")
	}},
	"ARN outside of what was read": {"SC003", "", "s01", func(s map[string]deployed) {
		setIn(s, "orders-eu-2-shard-s01", "arn:aws:sqs:eu-west-1:111111111111:orders-eu-1-s09-work")
	}},
	"ARN in a policy of the core": {"SC003", "Worker", "", func(s map[string]deployed) {
		s["orders-eu-2-core"].template["Resources"].(object)["Policy"] = object{"Type": "AWS::IAM::ManagedPolicy", "Properties": object{"PolicyDocument": object{"Statement": []object{
			{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "arn:aws:lambda:eu-west-1:111111111111:function:orders-eu-1-s01-worker"}}}}}
	}},
	"name":                                {"SC003", "Table", "s01", func(s map[string]deployed) { setIn(s, "orders-eu-2-shard-s01", "orders-eu-1-store") }},
	"name of something that was not read": {"SC003", "", "s01", func(s map[string]deployed) { setIn(s, "orders-eu-2-shard-s01", "orders-eu-1-archive") }},
	"host of the other cell":              {"SC003", "", "s01", func(s map[string]deployed) { setIn(s, "orders-eu-2-shard-s01", "s01.eu-1.orders.internal") }},
	"equal physical name": {"SC003", "Table", "", func(s map[string]deployed) {
		s["orders-eu-2-core"].template["Resources"].(object)["Table"].(object)["Properties"].(object)["TableName"] = "orders-eu-1-store"
	}},
	"peering": {"SC004", "Peering", "", func(s map[string]deployed) {
		s["orders-eu-1-core"].template["Outputs"].(object)["V"] = object{"Value": object{"Ref": "Vpc"}, "Export": object{"Name": "v"}}
		s["orders-eu-2-core"].template["Resources"].(object)["Peering"] = object{"Type": "AWS::EC2::VPCPeeringConnection", "Properties": object{
			"VpcId": object{"Ref": "Vpc"}, "PeerVpcId": object{"Fn::ImportValue": "v"}}}
	}},
	"transit gateway": {"SC004", "Hub", "", func(s map[string]deployed) {
		s["network"] = deployed{template: object{"Resources": object{"Hub": object{"Type": "AWS::EC2::TransitGateway", "Properties": object{}}},
			"Outputs": object{"H": object{"Value": object{"Ref": "Hub"}, "Export": object{"Name": "hub"}}}}}
		for _, cell := range []string{"eu-1", "eu-2"} {
			s["orders-"+cell+"-core"].template["Resources"].(object)["Attach"] = object{"Type": "AWS::EC2::TransitGatewayAttachment", "Properties": object{
				"TransitGatewayId": object{"Fn::ImportValue": "hub"}, "VpcId": object{"Ref": "Vpc"}}}
		}
	}},
	"transit gateway outside of what was read": {"SC004", "", "", func(s map[string]deployed) {
		for _, cell := range []string{"eu-1", "eu-2"} {
			s["orders-"+cell+"-core"].template["Resources"].(object)["Attach"] = object{"Type": "AWS::EC2::TransitGatewayAttachment", "Properties": object{
				"TransitGatewayId": "tgw-0123456789abcdef0", "VpcId": object{"Ref": "Vpc"}}}
		}
	}},
	"dependency of the stack": {"SC005", "", "s01", func(s map[string]deployed) {
		d := s["orders-eu-2-shard-s01"]
		d.after = []string{"orders-eu-1-core"}
		s["orders-eu-2-shard-s01"] = d
	}},
	"two cells in one stack": {"SC005", "Table", "", func(s map[string]deployed) {
		s["orders-eu-1-core"].template["Resources"].(object)["Copy"] = object{"Type": "AWS::SQS::Queue", "Properties": object{
			"X": object{"Ref": "Table"}, "Tags": []object{{"Key": "cellwall:cell", "Value": "eu-2"}}}}
	}},
}

func setIn(s map[string]deployed, stack string, v any) {
	setenvAs(s[stack].template["Resources"].(object)["Worker"].(object), "OTHER_TABLE_NAME", v)
}

// TestCouplingOfCells cuts each hole between two cells and expects one SC error, with its path.
func TestCouplingOfCells(t *testing.T) {
	sc := func(r audit.Report) (out []audit.Finding) {
		for _, f := range r.Findings {
			if f.Rule[:2] == "SC" {
				out = append(out, f)
			}
		}
		return out
	}
	if found := sc(audit.Run(manifestOf(t, twoCells()), audit.Options{})); len(found) > 0 {
		t.Fatalf("clean cells: %+v", found)
	}
	for name, c := range couplings {
		t.Run(name, func(t *testing.T) {
			s := twoCells()
			c.cut(s)
			found := sc(audit.Run(manifestOf(t, s), audit.Options{}))
			if len(found) == 2 && name == "peering" { // the import by which it names the other VPC is one, too
				if found[0].Rule != "SC001" {
					t.Errorf("%+v", found[0])
				}
				found = found[1:]
			}
			if len(found) != 1 || found[0].Rule != c.rule || found[0].Level != audit.Error || found[0].Resource.LogicalID != c.at {
				t.Fatalf("found %+v, want one %s at %q", found, c.rule, c.at)
			}
			f := found[0]
			if !strings.Contains(f.Message, "eu-1") || !strings.Contains(f.Message, "eu-2") || f.Fix == "" {
				t.Errorf("message %q", f.Message)
			}
			last := f.Paths[len(f.Paths)-1]
			if last.Shard.Cell != "eu-2" || last.Shard.ID != c.shard || len(last.Steps) < 2 {
				t.Errorf("path %+v", last)
			}
			if end := last.Steps[len(last.Steps)-1]; f.Resource.LogicalID != end.LogicalID || last.Steps[0].Stack[:11] != "orders-eu-2" && name != "two cells in one stack" {
				t.Errorf("path %+v of %+v", last.Steps, f.Resource)
			}
			if (c.shard != "") != (len(f.Shards) == 1) {
				t.Errorf("shards %v", f.Shards)
			}
		})
	}
}

// TestObserversMayNameOtherCells holds that a dashboard over several cells couples none of them.
func TestObserversMayNameOtherCells(t *testing.T) {
	s := twoCells()
	s["orders-eu-2-core"].template["Resources"].(object)["Dashboard"] = object{"Type": "AWS::CloudWatch::Dashboard", "Properties": object{
		"DashboardBody": "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-eu-1-store"}}
	for _, f := range audit.Run(manifestOf(t, s), audit.Options{}).Findings {
		if f.Rule[:2] == "SC" && (f.Level != audit.Info || f.Reason == "") {
			t.Errorf("%s %s: %s", f.Level, f.Rule, f.Message)
		}
	}
}

// TestCrossingsNameWhatPeopleCallIt holds that an export goes by its name, and other things by what they are.
func TestCrossingsNameWhatPeopleCallIt(t *testing.T) {
	for name, want := range map[string]string{
		"import":       `cell eu-2 depends on export "eu-1-table" of cell eu-1`,
		"stack output": `cell eu-2 depends on export "eu-1-table" of cell eu-1`,
		"ARN":          `cell eu-2 depends on table "orders-eu-1-store" of cell eu-1`,
	} {
		stacks := twoCells()
		couplings[name].cut(stacks)
		r := audit.Run(manifestOf(t, stacks), audit.Options{})
		var got []string
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Rule, "SC") {
				got = append(got, f.Message)
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
