package stamp

import (
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestShardKey: with encryption own, whatever a shard keeps is under its own key, which stays as that does; the
// other shapes have no such key.
func TestShardKey(t *testing.T) {
	s := shape(t, "everything")[shardPath]
	key := s.one(t, "AWS::KMS::Key")
	if key.DeletionPolicy != "RetainExceptOnCreate" || key.UpdateReplacePolicy != "Retain" || key.at("EnableKeyRotation") != true {
		t.Errorf("the key: %s, %s, %s", key.DeletionPolicy, key.UpdateReplacePolicy, text(key.Properties))
	}
	if alias := s.one(t, "AWS::KMS::Alias"); alias.at("AliasName") != "alias/orders-eu-canary-s01-key" || text(alias.at("TargetKeyId")) != keyARN {
		t.Errorf("its alias is %s", text(alias.Properties))
	}
	if got := text(s.one(t, "AWS::DynamoDB::Table").at("SSESpecification")); got != `{"KMSMasterKeyId":`+keyARN+`,"SSEEnabled":true,"SSEType":"KMS"}` {
		t.Errorf("the table is encrypted with %s", got)
	}
	if got := text(s.one(t, "AWS::S3::Bucket").at("BucketEncryption")); got !=
		`{"ServerSideEncryptionConfiguration":[{"BucketKeyEnabled":true,"ServerSideEncryptionByDefault":{"KMSMasterKeyID":`+keyARN+`,"SSEAlgorithm":"aws:kms"}}]}` {
		t.Errorf("the bucket is encrypted with %s", got)
	}
	queues := s.of("AWS::SQS::Queue")
	for _, q := range queues {
		if text(q.at("KmsMasterKeyId")) != keyARN || q.at("SqsManagedSseEnabled") != nil {
			t.Errorf("%v is encrypted with %s", q.at("QueueName"), text(q.at("KmsMasterKeyId")))
		}
	}
	if len(queues) != 2 {
		t.Errorf("%d queues", len(queues))
	}
	logs := s.of("AWS::Logs::LogGroup")
	for _, l := range logs {
		if got := text(l.at("KmsKeyId")); got != keyARN {
			t.Errorf("%v is encrypted with %s", l.at("LogGroupName"), got)
		}
	}
	if len(logs) != 2 {
		t.Errorf("%d logs", len(logs))
	}
	for _, name := range []string{"per-shard", "home", "lambda-only", "http-only"} {
		if s := shape(t, name)[shardPath]; len(s.of("AWS::KMS::Key"))+len(s.of("AWS::KMS::Alias")) > 0 {
			t.Errorf("%s has a key", name)
		}
	}
}

const keyARN = `{"Fn::GetAtt":["Key961B73FD","Arn"]}`

// TestWhoUsesAShardsKey: the account's IAM lets the shard's two roles, each through what keeps something under it; the
// router to send, and the keeper to pin, by the keys' aliases. By the key's own policy CloudWatch Logs may, for this
// shard's logs.
func TestWhoUsesAShardsKey(t *testing.T) {
	const uses = "kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey kms:GenerateDataKeyWithoutPlaintext kms:ReEncryptFrom kms:ReEncryptTo"
	s := shape(t, "everything")[shardPath]
	var got []string
	key := s.one(t, "AWS::KMS::Key")
	for i, st := range statements(t, key.at("KeyPolicy")) {
		got = append(got, text(key.at("KeyPolicy", "Statement", i, "Principal"))+" "+strings.Join(st.Action, " ")+" "+st.Condition)
	}
	want := []string{
		`{"AWS":"arn:aws:iam::111111111111:root"} kms:* `,
		`{"Service":"logs.eu-west-1.amazonaws.com"} ` + uses + ` {"ArnEquals":{"kms:EncryptionContext:aws:logs:arn":["arn:aws:logs:eu-west-1:111111111111:log-group:/cellwall/orders/eu-canary/s01/worker","arn:aws:logs:eu-west-1:111111111111:log-group:/cellwall/orders/eu-canary/s01/service"]}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the key's policy is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	const byAlias = `{"ForAllValues:StringNotLike":{"kms:ResourceAliases":"alias/orders-eu-canary-*-*-key"},"ForAnyValue:StringLike":{"kms:ResourceAliases":"alias/orders-eu-canary-*-key"},"StringEquals":{"kms:ViaService":"`
	for role, want := range map[string]string{
		"orders-eu-canary-router-role": "kms:Decrypt kms:GenerateDataKey " + byAlias + `sqs.eu-west-1.amazonaws.com"}}`,
		"orders-eu-canary-keeper-role": uses + " " + byAlias + `dynamodb.eu-west-1.amazonaws.com"}}`,
	} {
		var got []string
		for _, st := range shape(t, "everything")["eu-canary/core"].permissions(t, role) {
			if st.Resource[0] == "arn:aws:kms:eu-west-1:111111111111:key/*" {
				got = append(got, strings.Join(st.Action, " ")+" "+st.Condition)
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s may %q with shards' keys, want %q", role, got, want)
		}
	}
	if alias, _ := s.one(t, "AWS::KMS::Alias").at("AliasName").(string); !matches("alias/orders-eu-canary-*-key", alias) {
		t.Errorf("they would not know %s", alias)
	}
	roles := map[string]bool{}
	for _, policy := range s.of("AWS::IAM::Policy") {
		for _, st := range statements(t, policy.at("PolicyDocument")) {
			if !strings.HasPrefix(st.Action[0], "kms:") {
				continue
			}
			if st.Resource[0] != keyARN {
				t.Errorf("%s on %s", st.Action, text(st.Resource))
			}
			// The event source brings a statement of its own, for what it decrypts.
			if action := strings.Join(st.Action, " "); action != "kms:Decrypt" {
				roles[text(policy.at("Roles"))] = true
				if action != uses || st.Condition != `{"StringEquals":{"kms:ViaService":["dynamodb.eu-west-1.amazonaws.com","s3.eu-west-1.amazonaws.com","sqs.eu-west-1.amazonaws.com"]}}` {
					t.Errorf("%s may %s if %s", text(policy.at("Roles")), action, st.Condition)
				}
			}
		}
	}
	if len(roles) != 2 {
		t.Errorf("used by %v", roles)
	}
}

// TestKeyOfAShardWithoutParts: nobody is let in for what a shard does not have, nor outside of China as if inside.
func TestKeyOfAShardWithoutParts(t *testing.T) {
	s := synth(t, sample(t, func(f *fleet.Fleet) {
		f.Shard = fleet.Shard{Lambda: f.Shard.Lambda, State: fleet.State{Mode: fleet.StateNone}, Encryption: fleet.EncryptionOwn}
		f.Cells[0].Shards, f.Cells[0].Quarantine = f.Cells[0].Shards[:2], []string{"s02"}
	}))[shardPath]
	if got, _ := s.one(t, "AWS::KMS::Key").at("KeyPolicy", "Statement").([]any); len(got) != 2 || !strings.Contains(text(got[1]), `"logs.eu-west-1.amazonaws.com"`) {
		t.Errorf("the key of a slice alone lets in %s", text(got))
	}
	for _, policy := range s.of("AWS::IAM::Policy") {
		if strings.Contains(text(policy.Properties), "kms:") {
			t.Errorf("it is used by %s", text(policy.Properties))
		}
	}
	for region, want := range map[string]string{"eu-west-1": "sqs.eu-west-1.amazonaws.com", "cn-north-1": "sqs.cn-north-1.amazonaws.com.cn", "us-gov-west-1": "sqs.us-gov-west-1.amazonaws.com"} {
		if got := endpoint("sqs", region); got != want {
			t.Errorf("SQS in %s is %s", region, got)
		}
	}
}
