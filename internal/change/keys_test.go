package change

import (
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestKeys: what becomes of data when its key changes; "" for nothing.
func TestKeys(t *testing.T) {
	const key = `, "K": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}, "A": {"Type": "AWS::KMS::Alias", "Properties": {"TargetKeyId": {"Fn::GetAtt": ["K", "Arn"]}}}`
	queue := func(properties string) string {
		return `"R": {"Type": "AWS::SQS::Queue", "Properties": {` + properties + `}}` + key
	}
	bucket := func(algorithm string) string {
		return `"R": {"Type": "AWS::S3::Bucket", "Properties": {"BucketEncryption": {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {` + algorithm + `}}]}}}` + key
	}
	of := func(typ, properties string) string {
		return `"R": {"Type": "` + typ + `", "Properties": {` + properties + `}}` + key
	}
	const own = `"KmsMasterKeyId": {"Ref": "K"}`
	for name, c := range map[string]struct {
		was, next string
		why       string // a part of what the resource says
		refused   string // a part of why it is refused
	}{
		"a queue, from its key":      {queue(own), queue(`"SqsManagedSseEnabled": true`), "messages that wait stay under it", "messages that wait stay under it"},
		"a queue, to a key":          {queue(`"SqsManagedSseEnabled": true`), queue(own), "messages that wait stay under the key of before", ""},
		"to a key of another's":      {queue(own), queue(`"KmsMasterKeyId": "arn:aws:kms:eu-west-1:111111111111:key/1"`), "stay under it", "stay under it"},
		"to AWS's":                   {queue(own), queue(`"KmsMasterKeyId": "alias/aws/sqs"`), "stay under it", "stay under it"},
		"from AWS's":                 {queue(`"KmsMasterKeyId": "arn:aws:kms:eu-west-1:111111111111:alias/aws/sqs"`), queue(own), "stay under the key of before", ""},
		"between AWS's":              {queue(`"KmsMasterKeyId": "alias/aws/sqs"`), queue(`"SqsManagedSseEnabled": true`), "", ""},
		"the same, by its ARN":       {queue(own), queue(`"KmsMasterKeyId": {"Fn::GetAtt": ["K", "Arn"]}`), "", ""},
		"the same, by its alias":     {queue(own), queue(`"KmsMasterKeyId": {"Ref": "A"}`), "", ""},
		"a bucket, from its key":     {bucket(`"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Ref": "K"}`), bucket(`"SSEAlgorithm": "AES256"`), "objects that are there stay under it", "objects"},
		"a bucket, to a key":         {bucket(`"SSEAlgorithm": "AES256"`), bucket(`"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Ref": "K"}`), "objects that are there stay under the key of before", ""},
		"a log group, from its key":  {of("AWS::Logs::LogGroup", `"KmsKeyId": {"Ref": "K"}`), of("AWS::Logs::LogGroup", ``), "events that are there stay under it", "events"},
		"a table, from its key":      {of("AWS::DynamoDB::Table", `"SSESpecification": {"SSEEnabled": true, "KMSMasterKeyId": {"Ref": "K"}}`), of("AWS::DynamoDB::Table", ``), "backups made until then", "backups"},
		"a replica, from its key":    {of("AWS::DynamoDB::GlobalTable", `"Replicas": [{"Region": "a", "SSESpecification": {"KMSMasterKeyId": {"Ref": "K"}}}]`), of("AWS::DynamoDB::GlobalTable", `"Replicas": [{"Region": "a"}]`), "backups made until then", "backups"},
		"a secret, from its key":     {of("AWS::SecretsManager::Secret", `"KmsKeyId": {"Ref": "K"}`), of("AWS::SecretsManager::Secret", ``), "previous one stay under it", "previous"},
		"made anew with another key": {queue(`"QueueName": "q", ` + own), queue(`"QueueName": "r"`), "", "it keeps goes with it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := one(t, `{"Resources": {`+c.was+`}}`, `{"Resources": {`+c.next+`}}`)
			said, refused := "", ""
			if e := what(r)["s.R"]; e != nil {
				said = strings.Join(e.Why, "; ")
			}
			for _, e := range r.Refused {
				refused += e.Why
			}
			if !strings.Contains(said, c.why) || c.why == "" && said != "" {
				t.Errorf("it says %q, want %q", said, c.why)
			}
			if !strings.Contains(refused, c.refused) || c.refused == "" && refused != "" {
				t.Errorf("refused because %q, want %q", refused, c.refused)
			}
		})
	}
}

// TestKeyByParameter: a key that a parameter names is left when the parameter's value changes, though the template
// reads as before.
func TestKeyByParameter(t *testing.T) {
	at := func(key string) audit.Input {
		s := stackOf(t, "s", "")
		s.Template = parse(t, `{"Parameters": {"K": {"Type": "String", "Default": "`+key+`"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"KmsMasterKeyId": {"Ref": "K"}}}}}`)
		return audit.Input{Stacks: []audit.Stack{s}}
	}
	r := Compare(at("key-1"), at("key-2"), Options{})
	if len(r.Refused) != 1 || r.Refused[0].What != "takes queue Q from its KMS key key-1" || r.Refused[0].Accept != AcceptKeyChange {
		t.Errorf("refused: %+v", r.Refused)
	}
}

// TestAcceptKeyChanges: what somebody accepts is told with the reason, and nothing else is accepted with it.
func TestAcceptKeyChanges(t *testing.T) {
	r := one(t, `{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"KmsMasterKeyId": "mine"}}, "L": {"Type": "AWS::SQS::Queue"}}}`,
		`{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)
	before := slices.Clone(r.Refused)
	r.AcceptKeyChanges("it is empty")
	if len(before) != 2 || len(r.Refused) != 1 || r.Refused[0].Resource != "L" || len(r.Accepted) != 1 || r.Accepted[0].Reason != "it is empty" || !slices.Contains(before, r.Accepted[0].Refusal) {
		t.Errorf("of %+v are accepted %+v, and left %+v", before, r.Accepted, r.Refused)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "accepted\n  stack s: takes queue Q from its KMS key mine\n    why: messages that wait stay under it") || !strings.Contains(b.String(), "    because: it is empty\n") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
