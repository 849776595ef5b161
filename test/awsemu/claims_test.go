package awsemu_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/test/awsemu"
)

// The tests in this package hold the emulator to what docs/testing.md says of it: each sentence there
// about a lie of stock moto that is mended has its test here, under the same name.

const account, region = "111111111111", "eu-west-1"

// emulator is one emulator for all tests of this package; each takes names of its own in it.
var emulator = sync.OnceValues(func() (*awsemu.Emulator, error) {
	return awsemu.New(context(), &said)
})

func use(t *testing.T) *awsemu.Emulator {
	t.Helper()
	e, err := emulator()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return e
}

// stacks is CloudFormation in one account and region.
type stacks struct {
	*cloudformation.Client
}

func newStacks(t *testing.T) stacks {
	t.Helper()
	return stacks{cloudformation.NewFromConfig(use(t).Config(t, account, region))}
}

// create creates a stack and returns its status.
func (s stacks) create(t *testing.T, name, resources string) string {
	t.Helper()
	_, err := s.CreateStack(t.Context(), &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(template(resources))})
	if err != nil {
		t.Fatal(err)
	}
	return s.status(t, name)
}

// update updates a stack and returns its status.
func (s stacks) update(t *testing.T, name, resources string) string {
	t.Helper()
	_, err := s.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: &name, TemplateBody: aws.String(template(resources))})
	if err != nil {
		t.Fatal(err)
	}
	return s.status(t, name)
}

func (s stacks) status(t *testing.T, name string) string {
	t.Helper()
	out, err := s.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Stacks[0].StackStatus)
}

// reasons is every reason in a stack's events.
func (s stacks) reasons(t *testing.T, name string) string {
	t.Helper()
	out, err := s.DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: &name})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, e := range out.StackEvents {
		reasons = append(reasons, aws.ToString(e.ResourceStatusReason))
	}
	return strings.Join(reasons, "\n")
}

func template(resources string) string { return `{"Resources":{` + resources + `}}` }

// queueURL is a queue's address; "" when there is no such queue.
func queueURL(t *testing.T, name string) string {
	t.Helper()
	out, err := sqs.NewFromConfig(use(t).Config(t, account, region)).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(api.ErrorCode(), "NonExistentQueue") || errors.As(err, &api) && api.ErrorCode() == "QueueDoesNotExist" {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return *out.QueueUrl
}

func TestUnknownTypeFails(t *testing.T) {
	s := newStacks(t)
	if got := s.create(t, "unknown", `"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"unknown-q"}},"X":{"Type":"AWS::Braket::QuantumTask"}`); got != "ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %s", got)
	}
	if !strings.Contains(s.reasons(t, "unknown"), "no support for AWS::Braket::QuantumTask") {
		t.Errorf("no event says why:\n%s", s.reasons(t, "unknown"))
	}
	if queueURL(t, "unknown-q") != "" {
		t.Error("the stack's queue was made")
	}
}

func TestUnknownPropertyFails(t *testing.T) {
	s := newStacks(t)
	if got := s.create(t, "property", `"V":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.9.0.0/16","Colour":"blue"}}`); got != "ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %s", got)
	}
	if !strings.Contains(s.reasons(t, "property"), "Colour") {
		t.Errorf("no event names the property:\n%s", s.reasons(t, "property"))
	}
}

// TestGroupDescriptionsAreJudged: EC2 takes few characters in the descriptions of a security group and its
// rules, and at most 255.
func TestGroupDescriptionsAreJudged(t *testing.T) {
	s := newStacks(t)
	for i, c := range []struct{ group, rule, want string }{
		{"Router: in from (nowhere), out to #1", "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*", "CREATE_COMPLETE"},
		{"the shards' group", "rule", "ROLLBACK_COMPLETE"},
		{"group", "the shards' instances", "ROLLBACK_COMPLETE"},
		{"group", strings.Repeat("x", 256), "ROLLBACK_COMPLETE"},
	} {
		name := fmt.Sprintf("described-%d", i)
		got := s.create(t, name, `"G":{"Type":"AWS::EC2::SecurityGroup","Properties":{"GroupDescription":"`+c.group+`",
			"SecurityGroupEgress":[{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"CidrIp":"0.0.0.0/0","Description":"`+c.rule+`"}]}}`)
		if got != c.want {
			t.Errorf("with the descriptions %q and %q the stack is %s, want %s:\n%s", c.group, c.rule, got, c.want, s.reasons(t, name))
		}
	}
}

func TestFailedCreateIsRolledBack(t *testing.T) {
	s := newStacks(t)
	if got := s.create(t, "half", `"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"half-q"}},
		"S":{"Type":"AWS::EC2::Subnet","DependsOn":"Q","Properties":{"VpcId":"vpc-none","CidrBlock":"10.0.0.0/24"}}`); got != "ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %s", got)
	}
	if queueURL(t, "half-q") != "" {
		t.Error("the queue outlived the rollback")
	}
}

func TestFailedUpdateIsRolledBack(t *testing.T) {
	s := newStacks(t)
	queue := func(seconds int) string {
		return fmt.Sprintf(`"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"back-q","VisibilityTimeout":%d}}`, seconds)
	}
	if got := s.create(t, "back", queue(30)); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", got)
	}
	bad := `,"S":{"Type":"AWS::EC2::Subnet","DependsOn":"Q","Properties":{"VpcId":"vpc-none","CidrBlock":"10.0.0.0/24"}}`
	if got := s.update(t, "back", queue(60)+bad); got != "UPDATE_ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %s", got)
	}
	if got := visibility(t, "back-q"); got != "30" {
		t.Errorf("the queue's visibility timeout is %s after the rollback, want 30", got)
	}
}

func visibility(t *testing.T, queue string) string {
	t.Helper()
	out, err := sqs.NewFromConfig(use(t).Config(t, account, region)).GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(queueURL(t, queue)), AttributeNames: []sqsAttribute{"VisibilityTimeout"}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes["VisibilityTimeout"]
}

func TestUpdateReachesDependants(t *testing.T) {
	s := newStacks(t)
	// The parameter depends on the launch template's version, which the update raises.
	resources := func(size string) string {
		return `"T":{"Type":"AWS::EC2::LaunchTemplate","Properties":{"LaunchTemplateData":{"InstanceType":"` + size + `"}}},
			"P":{"Type":"AWS::SSM::Parameter","Properties":{"Name":"/dependant","Type":"String","Value":{"Fn::GetAtt":["T","LatestVersionNumber"]}}}`
	}
	value := func() string {
		out, err := ssm.NewFromConfig(use(t).Config(t, account, region)).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/dependant")})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Parameter.Value
	}
	s.create(t, "dependant", resources("t4g.small"))
	if got := value(); got != "1" {
		t.Fatalf("the parameter is %s at first", got)
	}
	s.update(t, "dependant", resources("t4g.large"))
	if got := value(); got != "2" {
		t.Errorf("the parameter is %s after the update, want 2", got)
	}
}

func TestTypedParametersFollowTheirValue(t *testing.T) {
	s := newStacks(t)
	client := ssm.NewFromConfig(use(t).Config(t, account, region))
	put := func(value string) {
		if _, err := client.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String("/typed"), Type: "String", Value: &value, Overwrite: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
	}
	body := aws.String(`{"Parameters":{"P":{"Type":"AWS::SSM::Parameter::Value<String>","Default":"/typed"}},
		"Resources":{"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"typed-q","VisibilityTimeout":{"Ref":"P"}}}}}`)
	put("11")
	if _, err := s.CreateStack(t.Context(), &cloudformation.CreateStackInput{StackName: aws.String("typed"), TemplateBody: body}); err != nil {
		t.Fatal(err)
	}
	update := func() error {
		_, err := s.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("typed"), TemplateBody: body,
			Parameters: []cfn.Parameter{{ParameterKey: aws.String("P"), UsePreviousValue: aws.Bool(true)}}})
		return err
	}
	if err := update(); err == nil || !strings.Contains(err.Error(), "No updates") {
		t.Errorf("an update with nothing new gives %v", err)
	}
	put("22")
	if err := update(); err != nil {
		t.Fatal(err)
	}
	if got := visibility(t, "typed-q"); got != "22" {
		t.Errorf("the queue has the parameter's value %s, want the new one, 22", got)
	}
}

func TestConditionalWritesAreAtomic(t *testing.T) {
	client := dynamodb.NewFromConfig(use(t).Config(t, account, region))
	makeTable(t, client, "atomic")
	// Each writer adds to one counter by compare-and-set, as many times as it is to. Should two writers win
	// with the same old value, the counter ends below the number of wins.
	const writers, wins = 16, 8
	counter := func() (string, error) {
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("atomic"), Key: item("x"), ConsistentRead: aws.Bool(true)})
		if err != nil {
			return "", err
		}
		return out.Item["n"].(*ddb.AttributeValueMemberN).Value, nil
	}
	first := item("x")
	first["n"] = &ddb.AttributeValueMemberN{Value: "0"}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("atomic"), Item: first}); err != nil {
		t.Fatal(err)
	}
	add := func(old string) error {
		_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("atomic"), Key: item("x"), ConditionExpression: aws.String("n = :old"), UpdateExpression: aws.String("SET n = n + :one"),
			ExpressionAttributeValues: map[string]ddb.AttributeValue{":old": &ddb.AttributeValueMemberN{Value: old}, ":one": &ddb.AttributeValueMemberN{Value: "1"}}})
		return err
	}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for won := 0; won < wins; {
				old, err := counter()
				if err == nil {
					err = add(old)
				}
				var failed *ddb.ConditionalCheckFailedException
				switch {
				case err == nil:
					won++
				case !errors.As(err, &failed):
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if n, err := counter(); err != nil || n != fmt.Sprint(writers*wins) {
		t.Errorf("the counter is %s, %v after %d writes that won", n, err, writers*wins)
	}
}

func TestTablesAreFoundByARN(t *testing.T) {
	home := dynamodb.NewFromConfig(use(t).Config(t, account, region))
	makeTable(t, home, "far")
	if _, err := home.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("far"), Item: item("x")}); err != nil {
		t.Fatal(err)
	}
	// Another account, in another region, reads by ARN.
	away := dynamodb.NewFromConfig(use(t).Config(t, "222222222222", "us-east-1"))
	arn := "arn:aws:dynamodb:" + region + ":" + account + ":table/far"
	out, err := away.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &arn, Key: item("x")})
	if err != nil || len(out.Item) == 0 {
		t.Errorf("by ARN: %v, %v", out, err)
	}
	if _, err := away.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("far"), Key: item("x")}); err == nil {
		t.Error("by name the other account's table is found, too")
	}
}

func makeTable(t *testing.T, client *dynamodb.Client, name string) {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: ddb.BillingModePayPerRequest,
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: ddb.KeyTypeHash}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: ddb.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func item(pk string) map[string]ddb.AttributeValue {
	return map[string]ddb.AttributeValue{"pk": &ddb.AttributeValueMemberS{Value: pk}}
}

func TestSecretsAreGenerated(t *testing.T) {
	s := newStacks(t)
	generate := `{"SecretStringTemplate":"{\"kind\":\"key\"}","GenerateStringKey":"1","PasswordLength":64,"RequireEachIncludedType":false,
		"ExcludePunctuation":true,"ExcludeUppercase":true,"ExcludeCharacters":"ghijklmnopqrstuvwxyz"}`
	seen := map[string]bool{}
	for _, name := range []string{"secret-a", "secret-b"} {
		if got := s.create(t, name, `"S":{"Type":"AWS::SecretsManager::Secret","Properties":{"Name":"`+name+`","GenerateSecretString":`+generate+`}}`); got != "CREATE_COMPLETE" {
			t.Fatalf("the stack is %s: %s", got, s.reasons(t, name))
		}
		out, err := secretsmanager.NewFromConfig(use(t).Config(t, account, region)).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &name})
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]string
		if err := json.Unmarshal([]byte(*out.SecretString), &value); err != nil {
			t.Fatal(err)
		}
		if value["kind"] != "key" || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(value["1"]) {
			t.Errorf("the secret's form is %q", regexp.MustCompile(`[0-9a-f]`).ReplaceAllString(*out.SecretString, "x"))
		}
		seen[value["1"]] = true
	}
	if len(seen) != 2 {
		t.Error("two secrets are the same")
	}
}

// TestSecretsLabelsMove: a value that was put beside the current one is read once it has the label, and of many who
// move the label from one value, one succeeds.
func TestSecretsLabelsMove(t *testing.T) {
	const name = "labels"
	client := secretsmanager.NewFromConfig(use(t).Config(t, account, region))
	first, err := client.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String(name), SecretString: aws.String("first")})
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		out, err := client.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(name)})
		if err != nil {
			t.Fatal(err)
		}
		return *out.SecretString
	}
	const many = 8
	ids := make([]*string, many)
	for i := range ids {
		put, err := client.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{
			SecretId: aws.String(name), SecretString: aws.String(fmt.Sprint("value ", i)), VersionStages: []string{"AWSPENDING"}})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = put.VersionId
	}
	if got := read(); got != "first" {
		t.Errorf("a value that waits is read: %q", got)
	}
	var wg sync.WaitGroup
	var moved atomic.Int32
	var winner atomic.Pointer[string]
	for i, id := range ids {
		wg.Go(func() {
			_, err := client.UpdateSecretVersionStage(t.Context(), &secretsmanager.UpdateSecretVersionStageInput{
				SecretId: aws.String(name), VersionStage: aws.String("AWSCURRENT"), MoveToVersionId: id, RemoveFromVersionId: first.VersionId})
			if err == nil {
				moved.Add(1)
				winner.Store(aws.String(fmt.Sprint("value ", i)))
			}
		})
	}
	wg.Wait()
	if n := moved.Load(); n != 1 {
		t.Fatalf("%d of %d moved the label", n, many)
	}
	if got := read(); got != *winner.Load() {
		t.Errorf("%q is read, and %q has the label", got, *winner.Load())
	}
}

func TestOtherMotoIsRefused(t *testing.T) {
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	python := exec.Command(filepath.Join(root, ".venv", "bin", "python"), "-c", "from emulator import server; server.MOTO_VERSION = '1.2.3'; server.check_version()")
	python.Dir = filepath.Join(root, "test")
	out, err := python.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mends 1.2.3") {
		t.Errorf("with another moto the emulator says %q, %v", out, err)
	}
}

func TestBucketPoliciesAreKept(t *testing.T) {
	s := newStacks(t)
	got := s.create(t, "policy", `"Bucket":{"Type":"AWS::S3::Bucket","Properties":{"BucketName":"policy-bucket"}},
		"Policy":{"Type":"AWS::S3::BucketPolicy","Properties":{"Bucket":{"Ref":"Bucket"},"PolicyDocument":{"Version":"2012-10-17","Statement":[
			{"Sid":"TLS","Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::policy-bucket","arn:aws:s3:::policy-bucket/*"],
			"Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}}}`)
	if got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "policy"))
	}
	client := s3.NewFromConfig(use(t).Config(t, account, region), func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("policy-bucket"), Key: aws.String("k"), Body: strings.NewReader("v")}); err != nil {
		t.Errorf("an upload is refused: %v", err)
	}
	out, err := client.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: aws.String("policy-bucket")})
	if err != nil || !strings.Contains(*out.Policy, `"aws:SecureTransport"`) {
		t.Errorf("the policy is read back as %v, %v", out, err)
	}
}

func TestAccountsAndRegionsAreApart(t *testing.T) {
	places := [][2]string{{account, region}, {account, "us-east-1"}, {"222222222222", region}}
	for _, place := range places {
		s := stacks{cloudformation.NewFromConfig(use(t).Config(t, place[0], place[1]))}
		if got := s.create(t, "apart", `"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"apart-q"}}`); got != "CREATE_COMPLETE" {
			t.Errorf("in %v the stack is %s:\n%s", place, got, s.reasons(t, "apart"))
		}
	}
	for _, place := range places {
		client := sqs.NewFromConfig(use(t).Config(t, place[0], place[1]))
		url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("apart-q")})
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: []sqsAttribute{"QueueArn"}})
		if err != nil {
			t.Fatal(err)
		}
		if want := "arn:aws:sqs:" + place[1] + ":" + place[0] + ":apart-q"; out.Attributes["QueueArn"] != want {
			t.Errorf("the queue is %s, want %s", out.Attributes["QueueArn"], want)
		}
	}
	elsewhere := stacks{cloudformation.NewFromConfig(use(t).Config(t, "333333333333", region))}
	out, err := elsewhere.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
	if err != nil || len(out.Stacks) != 0 {
		t.Errorf("an account without stacks has %v, %v", out, err)
	}
}
