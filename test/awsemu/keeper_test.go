package awsemu_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// TestKeysAreOfTheirSpec: a key that signs signs by its alias, encrypts nothing, and cannot be rotated by itself.
func TestKeysAreOfTheirSpec(t *testing.T) {
	s := newStacks(t)
	key := func(more string) string {
		return `"Key":{"Type":"AWS::KMS::Key","Properties":{"KeySpec":"HMAC_256","KeyUsage":"GENERATE_VERIFY_MAC","PendingWindowInDays":7` + more + `,
			"KeyPolicy":{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"kms:*","Resource":"*","Principal":{"AWS":"arn:aws:iam::` + account + `:root"}}]}}},
			"Alias":{"Type":"AWS::KMS::Alias","Properties":{"AliasName":"alias/signs","TargetKeyId":{"Fn::GetAtt":["Key","Arn"]}}}`
	}
	if got := s.create(t, "rotates", key(`,"EnableKeyRotation":true`)); got != "ROLLBACK_COMPLETE" || !strings.Contains(s.reasons(t, "rotates"), "cannot be rotated") {
		t.Errorf("with rotation the stack is %s: %s", got, s.reasons(t, "rotates"))
	}
	if got := s.create(t, "signs", key("")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", got, s.reasons(t, "signs"))
	}
	client, message := kms.NewFromConfig(use(t).Config(t, account, region)), []byte("message")
	out, err := client.GenerateMac(t.Context(), &kms.GenerateMacInput{KeyId: aws.String("alias/signs"), MacAlgorithm: kmstypes.MacAlgorithmSpecHmacSha256, Message: message})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(mac []byte) error {
		_, err := client.VerifyMac(t.Context(), &kms.VerifyMacInput{KeyId: aws.String("alias/signs"), MacAlgorithm: kmstypes.MacAlgorithmSpecHmacSha256, Message: message, Mac: mac})
		return err
	}
	if err := verify(out.Mac); err != nil {
		t.Error(err)
	}
	other := bytes.Clone(out.Mac)
	other[0] ^= 1
	if verify(other) == nil {
		t.Error("another code is taken for the key's")
	}
}

// TestPrincipalsMustExist: a role may invoke a function once there is such a role, in whatever account.
func TestPrincipalsMustExist(t *testing.T) {
	const elsewhere, role = "222222222222", "asks-functions"
	permission := `,"Permission":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"lambda:InvokeFunction","FunctionName":{"Ref":"Alias"},
		"Principal":"arn:aws:iam::` + elsewhere + `:role/` + role + `"}}`
	upload(t)
	s := newStacks(t)
	if got := s.create(t, "asked-too-early", functionTemplate("asked-too-early", 5, "")+permission); got != "ROLLBACK_COMPLETE" ||
		!strings.Contains(s.reasons(t, "asked-too-early"), "The provided principal was invalid") {
		t.Errorf("without the role the stack is %s: %s", got, s.reasons(t, "asked-too-early"))
	}
	if _, err := iam.NewFromConfig(use(t).Config(t, elsewhere, region)).CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String(role), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)}); err != nil {
		t.Fatal(err)
	}
	if got := s.create(t, "asked", functionTemplate("asked", 5, "")+permission); got != "CREATE_COMPLETE" {
		t.Errorf("the stack is %s: %s", got, s.reasons(t, "asked"))
	}
}

// TestSchedulesAreKept: a rule on a schedule is taken with its targets, changed, and gone with its stack; one that
// EventBridge would refuse fails.
func TestSchedulesAreKept(t *testing.T) {
	s := newStacks(t)
	rule := func(schedule, target string) string {
		return `"Rule":{"Type":"AWS::Events::Rule","Properties":{"Name":"runs","ScheduleExpression":"` + schedule + `","Targets":[{"Id":"one","Arn":"arn:aws:lambda:eu-west-1:111111111111:function:f:live",
			"Input":"{}","RetryPolicy":{"MaximumRetryAttempts":0,"MaximumEventAgeInSeconds":60}` + target + `}]}}`
	}
	for name, c := range map[string]string{"never": rule("now and then", ""), "aimless": rule("rate(1 minute)", `,"Colour":"red"`)} {
		if got := s.create(t, name, c); got != "ROLLBACK_COMPLETE" {
			t.Errorf("%s: the stack is %s", name, got)
		}
	}
	if got := s.create(t, "runs", rule("rate(1 minute)", "")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", got, s.reasons(t, "runs"))
	}
	if got := s.update(t, "runs", rule("rate(5 minutes)", "")); got != "UPDATE_COMPLETE" {
		t.Errorf("the stack is %s: %s", got, s.reasons(t, "runs"))
	}
}
