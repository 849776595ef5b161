package audit_test

import (
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestSeveralWriters holds that what is shared as identity or configuration is an error once two shards may write it,
// and a warning before.
func TestSeveralWriters(t *testing.T) {
	grant := func(action any, to any) object {
		return object{"Type": "AWS::IAM::ManagedPolicy", "Properties": object{"PolicyDocument": object{"Statement": []object{{"Effect": "Allow", "Action": action, "Resource": to}}}}}
	}
	shared := object{"Fn::ImportValue": "shared"}
	for name, c := range map[string]struct {
		typ, rule string
		link      object // in each of two shards
		level     audit.Level
	}{
		"read a parameter":             {"AWS::SSM::Parameter", "SI003", grant("ssm:GetParameter", shared), audit.Warning},
		"write a parameter":            {"AWS::SSM::Parameter", "SI003", grant([]string{"ssm:GetParameter", "ssm:PutParameter"}, shared), audit.Error},
		"write by a wildcard":          {"AWS::SSM::Parameter", "SI003", grant("ssm:P*", shared), audit.Error},
		"anything":                     {"AWS::SSM::Parameter", "SI003", grant("*", shared), audit.Error},
		"read by a wildcard":           {"AWS::SSM::Parameter", "SI003", grant("ssm:Get*", shared), audit.Warning},
		"another service's action":     {"AWS::SSM::Parameter", "SI003", grant("dynamodb:PutItem", shared), audit.Warning},
		"use a key":                    {"AWS::KMS::Key", "SI002", grant([]string{"kms:Decrypt", "kms:GenerateDataKey*", "kms:CreateGrant"}, shared), audit.Warning},
		"change a key":                 {"AWS::KMS::Key", "SI002", grant("kms:ScheduleKeyDeletion", shared), audit.Error},
		"change a secret":              {"AWS::SecretsManager::Secret", "SI002", grant("secretsmanager:UpdateSecret", shared), audit.Error},
		"a rule in a group":            {"AWS::EC2::SecurityGroup", "SI004", object{"Type": "AWS::EC2::SecurityGroupIngress", "Properties": object{"GroupId": shared}}, audit.Error},
		"instances in a group":         {"AWS::EC2::SecurityGroup", "SI004", object{"Type": "AWS::EC2::Instance", "Properties": object{"SecurityGroupIds": []any{shared}}}, audit.Warning},
		"a policy at a role":           {"AWS::IAM::Role", "SI001", object{"Type": "AWS::IAM::Policy", "Properties": object{"Roles": []any{shared}}}, audit.Error},
		"functions of a role":          {"AWS::IAM::Role", "SI001", object{"Type": "AWS::Lambda::Function", "Properties": object{"Role": shared}}, audit.Warning},
		"functions that log to it":     {"AWS::Logs::LogGroup", "SI005", object{"Type": "AWS::Lambda::Function", "Properties": object{"LoggingConfig": object{"LogGroup": shared}}}, audit.Error},
		"functions that know its name": {"AWS::Logs::LogGroup", "SI005", object{"Type": "AWS::Lambda::Function", "Properties": object{"Environment": object{"Variables": object{"L": shared}}}}, audit.Warning},
	} {
		for _, writers := range []int{1, 2} {
			s := stackSet{}
			s.put(core, "Shared", c.typ, object{})
			s.section(core, "Outputs")["O"] = object{"Value": object{"Ref": "Shared"}, "Export": object{"Name": "shared"}}
			for i, sh := range threeShards {
				if i < writers {
					s.section(shardStackName(sh), "Resources")["Link"] = c.link
				} else {
					s.put(shardStackName(sh), "User", "AWS::Lambda::Function", object{"Environment": object{"Variables": object{"X": shared}}})
				}
			}
			want := audit.Warning
			if writers > 1 {
				want = c.level
			}
			r := s.run(t)
			i := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Rule == c.rule && f.Resource.LogicalID == "Shared" })
			if i < 0 || r.Findings[i].Level != want || len(r.Findings[i].Shards) != 3 {
				t.Errorf("%s, %d writers: %+v, want %s", name, writers, r.Findings, want)
			} else if (want == audit.Error) != strings.Contains(r.Findings[i].Reason, "2 shards may write it") {
				t.Errorf("%s: reason %q", name, r.Findings[i].Reason)
			}
		}
	}
	t.Run("through one role of nobody's", func(t *testing.T) {
		s := stackSet{}
		s.put(core, "Shared", "AWS::SSM::Parameter", object{})
		s.put(core, "Role", "AWS::IAM::Role", object{"Policies": []object{{"PolicyDocument": object{"Statement": object{"Effect": "Allow", "Action": "ssm:PutParameter", "Resource": object{"Ref": "Shared"}}}}}})
		s.section(core, "Outputs")["O"] = object{"Value": object{"Ref": "Role"}, "Export": object{"Name": "role"}}
		for _, sh := range threeShards {
			s.put(shardStackName(sh), "F", "AWS::Lambda::Function", object{"Role": object{"Fn::ImportValue": "role"}})
		}
		if r := s.run(t); levelOf(r, "SI003") != "error" || levelOf(r, "SI001") != "warning" {
			t.Errorf("%+v", r.Findings)
		}
	})
}

// TestExpectedWithinOneCell holds that the allow-list ends where a cell does.
func TestExpectedWithinOneCell(t *testing.T) {
	for name, c := range map[string]struct {
		typ         string
		tags        []object
		one, across string // rule and level
	}{
		"NAT gateway":       {"AWS::EC2::NatGateway", nil, "SI008 info", "SD014 error"},
		"endpoint":          {"AWS::EC2::VPCEndpoint", nil, "SI008 info", "SD014 error"},
		"VPC":               {"AWS::EC2::VPC", nil, "SI008 info", "SI008 warning"},
		"name zone":         {"AWS::Route53::HostedZone", nil, "SI008 info", "SI008 info"},
		"store":             {"AWS::DynamoDB::Table", []object{{"Key": "cellwall:role", "Value": "cell-store"}}, "SD002 info", "SD002 error"},
		"router":            {"AWS::Lambda::Function", []object{{"Key": "cellwall:role", "Value": "router"}}, "SD008 info", "SD008 error"},
		"keeper":            {"AWS::Lambda::Function", []object{{"Key": "cellwall:role", "Value": "keeper"}}, "SD008 info", "SD008 error"},
		"API":               {"AWS::ApiGatewayV2::Api", []object{{"Key": "cellwall:role", "Value": "api"}}, "SD010 info", "SD010 error"},
		"placement key":     {"AWS::SecretsManager::Secret", []object{{"Key": "cellwall:role", "Value": "placement-key"}}, "SI002 info", "SI002 warning"},
		"directory":         {"AWS::DynamoDB::Table", []object{{"Key": "cellwall:role", "Value": "directory"}}, "SD002 info", "SD002 info"},
		"CloudFront policy": {"AWS::CloudFront::CachePolicy", nil, "SI003 info", "SI003 info"},
		"table of nobody's": {"AWS::DynamoDB::Table", nil, "SD002 error", "SD002 error"},
	} {
		for _, across := range []bool{false, true} {
			s := stackSet{}
			s.put("shared", "Shared", c.typ, object{"Tags": c.tags})
			s.section("shared", "Outputs")["O"] = object{"Value": object{"Ref": "Shared"}, "Export": object{"Name": "shared"}}
			stacks, want := []string{shardStackName("s01"), shardStackName("s02")}, c.one
			if across {
				stacks, want = []string{shardStackName("s01"), "orders-eu-2-shard-s01"}, c.across
			}
			for _, st := range stacks {
				s.put(st, "User", "AWS::SQS::Queue", object{"X": object{"Fn::ImportValue": "shared"}})
			}
			s.put("orders-eu-3-shard-s01", "Own", "AWS::SQS::Queue", object{}) // so that it is not the whole fleet
			r := s.run(t)
			if len(r.Findings) != 1 || r.Findings[0].Rule+" "+r.Findings[0].Level.String() != want {
				t.Errorf("%s, across cells %v: %+v, want %s", name, across, r.Findings, want)
			} else if f := r.Findings[0]; f.Level == audit.Info && f.Reason == "" || len(f.Paths) != 2 {
				t.Errorf("%s: no reason or paths: %+v", name, f)
			}
		}
	}
}

// TestMonoculture holds that one version in every shard of a cell is found, with the waves that would break it.
func TestMonoculture(t *testing.T) {
	const hash = "cfa9ebf8309d137dbcd0b802c5b153503d3237df7ddf8ac6b58765e4ae0c684f"
	fleet := func(waves ...[]string) *audit.Fleet {
		return &audit.Fleet{Service: "orders", Cells: []audit.FleetCell{{Name: "eu-1", Shards: []string{"s01", "s02"}}, {Name: "eu-2", Shards: []string{"s01", "s02"}}}, Waves: waves}
	}
	staged, atOnce := fleet([]string{"eu-1"}, []string{"eu-2"}), fleet([]string{"eu-1", "eu-2"})
	function := func(props object) object { return object{"Type": "AWS::Lambda::Function", "Properties": props} }
	for name, c := range map[string]struct {
		resource object
		fleet    *audit.Fleet
		level    string // "" for no finding
		says     string
	}{
		"asset":             {function(object{"Code": object{"S3Key": hash + ".zip"}}), staged, "info", `4 of 4 shards run asset "` + hash + `.zip" at once; a bad one would break them in waves 1 (eu-1), 2 (eu-2)`},
		"asset in one wave": {function(object{"Code": object{"S3Key": hash + ".zip"}}), atOnce, "warning", "in wave 1 (eu-1, eu-2)"},
		"asset, no fleet":   {function(object{"Code": object{"S3Key": hash + ".zip"}}), nil, "info", "at once"},
		"layer":             {function(object{"Layers": []string{"arn:aws:lambda:eu-west-1:111111111111:layer:tools:7"}}), staged, "info", `run layer "arn:aws:lambda:eu-west-1:111111111111:layer:tools:7"`},
		"digest":            {function(object{"Code": object{"ImageUri": "1.dkr.ecr.eu-west-1.amazonaws.com/x@sha256:" + hash}}), staged, "info", "run image"},
		"tag":               {function(object{"Code": object{"ImageUri": "1.dkr.ecr.eu-west-1.amazonaws.com/x:latest"}}), staged, "warning", "it is not pinned"},
		"AMI": {object{"Type": "AWS::EC2::LaunchTemplate", "Properties": object{"LaunchTemplateData": object{"ImageId": "ami-0123456789abcdef0"}}}, staged, "info",
			`run AMI "ami-0123456789abcdef0"`},
		"newest AMI": {object{"Type": "AWS::EC2::Instance", "Properties": object{"ImageId": "{{resolve:ssm:/aws/service/ami}}"}}, staged, "warning", `run AMI "resolve:ssm:/aws/service/ami"`},
		"files of instances": {object{"Type": "AWS::EC2::LaunchTemplate", "Properties": object{"LaunchTemplateData": object{"UserData": object{"Fn::Base64": object{"Fn::Sub": "aws s3 cp s3://x/" + hash + ".zip ${AWS::Region}"}}}}},
			staged, "info", "run asset"},
		"task":     {object{"Type": "AWS::ECS::TaskDefinition", "Properties": object{"ContainerDefinitions": []object{{"Image": "nginx"}}}}, staged, "warning", `run image "nginx"`},
		"no image": {function(object{"Runtime": "provided.al2023"}), staged, "", ""},
	} {
		s := map[string]deployed{}
		for _, cell := range []string{"eu-1", "eu-2"} {
			for _, sh := range []string{"s01", "s02"} {
				s["orders-"+cell+"-shard-"+sh] = deployed{tags: object{"cellwall:service": "orders", "cellwall:cell": cell, "cellwall:shard": sh},
					template: object{"Resources": object{"R": c.resource}}}
			}
		}
		r := audit.Run(manifestOf(t, s), audit.Options{Fleet: c.fleet})
		i := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Rule == "SI009" })
		switch {
		case i < 0 && c.level != "":
			t.Errorf("%s: not found in %+v", name, r.Findings)
		case i < 0:
		case r.Findings[i].Level.String() != c.level || !strings.Contains(r.Findings[i].Message, c.says):
			t.Errorf("%s: %s %s, want %s %s", name, r.Findings[i].Level, r.Findings[i].Message, c.level, c.says)
		case len(r.Findings[i].Paths) != 4 || len(r.Findings[i].Shards) != 4 || r.Findings[i].Paths[0].Steps[0].LogicalID != "R":
			t.Errorf("%s: %+v", name, r.Findings[i])
		}
	}
}
