package awsemu_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/test/awsemu"
)

const codeBucket = "function-code"

// code is testdata/function as zip files by architecture: built for this machine, and the same with a head
// that says it was built for the other one.
var code = sync.OnceValues(func() (map[lambdatypes.Architecture][]byte, error) {
	root, err := awsemu.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "awsemu")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-o", file, "-tags", "lambda.norpc", "./test/awsemu/testdata/function")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	zips := map[lambdatypes.Architecture][]byte{}
	for arch, machine := range map[lambdatypes.Architecture]elf.Machine{"x86_64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		binary[18] = byte(machine) // e_machine
		var archive bytes.Buffer
		w := zip.NewWriter(&archive)
		f, err := w.Create("bootstrap")
		if err == nil {
			_, err = f.Write(binary)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		zips[arch] = archive.Bytes()
	}
	return zips, nil
})

var uploaded sync.Once

// upload puts the functions' code where CloudFormation takes it from.
func upload(t *testing.T) {
	t.Helper()
	zips, err := code()
	if err != nil {
		t.Fatal(err)
	}
	uploaded.Do(func() {
		client := s3.NewFromConfig(use(t).Config(t, account, "us-east-1"), func(o *s3.Options) { o.UsePathStyle = true })
		if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(codeBucket)}); err != nil {
			t.Fatal(err)
		}
		for arch, zip := range zips {
			if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(codeBucket), Key: aws.String(string(arch)), Body: bytes.NewReader(zip)}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// functionTemplate is a function with its log group, version and alias. reserved is its reserved concurrency,
// more are further properties.
func functionTemplate(name string, reserved int, more string) string {
	return fmt.Sprintf(`
		"Role":{"Type":"AWS::IAM::Role","Properties":{"AssumeRolePolicyDocument":{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"lambda.amazonaws.com"}}]}}},
		"Logs":{"Type":"AWS::Logs::LogGroup","Properties":{"LogGroupName":"/test/%[1]s"}},
		"Function":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"%[1]s","Runtime":"provided.al2023","Handler":"bootstrap",
			"Architectures":["%[2]s"],"Code":{"S3Bucket":"%[3]s","S3Key":"%[4]s"},"Timeout":2,"LoggingConfig":{"LogGroup":{"Ref":"Logs"}},
			"Role":{"Fn::GetAtt":["Role","Arn"]},"ReservedConcurrentExecutions":%[5]d%[6]s}},
		"Version":{"Type":"AWS::Lambda::Version","Properties":{"FunctionName":{"Ref":"Function"}}},
		"Alias":{"Type":"AWS::Lambda::Alias","Properties":{"FunctionName":{"Ref":"Function"},"Name":"live","FunctionVersion":{"Fn::GetAtt":["Version","Version"]}}}`,
		name, architecture(), codeBucket, architecture(), reserved, more)
}

// architecture is this machine's, as Lambda calls it.
func architecture() lambdatypes.Architecture {
	if runtime.GOARCH == "arm64" {
		return lambdatypes.ArchitectureArm64
	}
	return lambdatypes.ArchitectureX8664
}

// newFunction deploys a function in a stack of its own.
func newFunction(t *testing.T, name string, reserved int, more string) *lambda.Client {
	t.Helper()
	upload(t)
	s := newStacks(t)
	if got := s.create(t, name, functionTemplate(name, reserved, more)); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	return lambda.NewFromConfig(use(t).Config(t, account, region), func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
}

func invoke(t *testing.T, client *lambda.Client, name, payload string) (string, string, error) {
	t.Helper()
	out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &name, Qualifier: aws.String("live"), Payload: []byte(payload)})
	if err != nil {
		return "", "", err
	}
	return string(out.Payload), aws.ToString(out.FunctionError), nil
}

func TestReservedConcurrencyIsUpdated(t *testing.T) {
	client := newFunction(t, "reserve", 35, "")
	s := newStacks(t)
	if got := s.update(t, "reserve", functionTemplate("reserve", 40, "")); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "reserve"))
	}
	out, err := client.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: aws.String("reserve")})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToInt32(out.ReservedConcurrentExecutions); got != 40 {
		t.Errorf("reserved concurrency is %d after the update, want 40", got)
	}
}

// TestRecursiveLoop: whether what comes back to a function is stopped is read back, changed and set back, and refused
// where Lambda refuses it.
func TestRecursiveLoop(t *testing.T) {
	client := newFunction(t, "loops", 5, `,"RecursiveLoop":"Allow"`)
	s := newStacks(t)
	check := func(want lambdatypes.RecursiveLoop) {
		t.Helper()
		out, err := client.GetFunctionRecursionConfig(t.Context(), &lambda.GetFunctionRecursionConfigInput{FunctionName: aws.String("loops")})
		if err != nil || out.RecursiveLoop != want {
			t.Errorf("it is %+v, %v; want %s", out, err, want)
		}
	}
	check(lambdatypes.RecursiveLoopAllow)
	if got := s.update(t, "loops", functionTemplate("loops", 5, `,"RecursiveLoop":"Allow","MemorySize":256`)); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "loops"))
	}
	check(lambdatypes.RecursiveLoopAllow)
	if got := s.update(t, "loops", functionTemplate("loops", 5, "")); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "loops"))
	}
	check(lambdatypes.RecursiveLoopTerminate)
	if got := s.create(t, "loops-twice", functionTemplate("loops-twice", 5, `,"RecursiveLoop":"Maybe"`)); got != "ROLLBACK_COMPLETE" {
		t.Errorf("with neither the stack is %s", got)
	}
}

// TestVersionsAreNumberedOn changes a function and changes it back, each time with a version that replaces the last: three
// versions have been published, the third is there, and the alias leads to it.
func TestVersionsAreNumberedOn(t *testing.T) {
	upload(t)
	s := newStacks(t)
	template := func(version, memory string) string {
		return strings.Replace(strings.ReplaceAll(functionTemplate("versions", 5, `,"MemorySize":`+memory), `"Version":{`, `"`+version+`":{`), `["Version","Version"]`, `["`+version+`","Version"]`, 1)
	}
	if got := s.create(t, "versions", template("VersionA", "128")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "versions"))
	}
	for _, next := range [][2]string{{"VersionB", "256"}, {"VersionA", "128"}} {
		if got := s.update(t, "versions", template(next[0], next[1])); got != "UPDATE_COMPLETE" {
			t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "versions"))
		}
	}
	client := lambda.NewFromConfig(use(t).Config(t, account, region))
	live, err := client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: aws.String("versions"), Qualifier: aws.String("live")})
	if err != nil {
		t.Fatal(err)
	}
	if *live.Version != "3" || *live.MemorySize != 128 {
		t.Errorf("the alias leads to version %s with %d MB, want 3 with 128", *live.Version, *live.MemorySize)
	}
}

func TestReservedConcurrencyThrottles(t *testing.T) {
	const limit, callers = 2, 6
	client := newFunction(t, "throttle", limit, `,"Environment":{"Variables":{"A":"b"}}`)
	var mu sync.Mutex
	var all sync.WaitGroup
	served, throttled := 0, 0
	for range callers {
		all.Go(func() {
			_, _, err := invoke(t, client, "throttle", `{"do":"sleep"}`) // longer than the function's timeout: all overlap
			mu.Lock()
			defer mu.Unlock()
			var many *lambdatypes.TooManyRequestsException
			switch {
			case err == nil:
				served++
			case errors.As(err, &many) && many.Reason == lambdatypes.ThrottleReasonReservedFunctionConcurrentInvocationLimitExceeded:
				throttled++
			default:
				t.Errorf("invoke: %v", err)
			}
		})
	}
	all.Wait()
	if served != limit || throttled != callers-limit {
		t.Errorf("%d served and %d throttled of %d at once, want %d served", served, throttled, callers, limit)
	}

	off := newFunction(t, "off", 0, "")
	var many *lambdatypes.TooManyRequestsException
	if _, _, err := invoke(t, off, "off", `{"do":"say"}`); !errors.As(err, &many) {
		t.Errorf("with reserved concurrency 0 the function answers %v", err)
	}
}

func TestFunctionsRunTheirBinary(t *testing.T) {
	t.Setenv("SECRET_OF_THE_TEST", "1")
	client := newFunction(t, "binary", 5, `,"Environment":{"Variables":{"CELL":"eu-1"}}`)
	out, failed, err := invoke(t, client, "binary", `{"do":"environment"}`)
	if err != nil || failed != "" {
		t.Fatal(out, failed, err)
	}
	var environment []string
	if err := json.Unmarshal([]byte(out), &environment); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CELL=eu-1", "AWS_REGION=" + region, "AWS_LAMBDA_FUNCTION_NAME=binary", "AWS_ENDPOINT_URL=" + use(t).URL()} {
		if !slices.Contains(environment, want) {
			t.Errorf("the function's environment lacks %s: %q", want, environment)
		}
	}
	for _, v := range environment {
		if strings.HasPrefix(v, "SECRET_OF_THE_TEST") || strings.HasPrefix(v, "HOME=") {
			t.Errorf("the test's environment reached the function: %s", v)
		}
	}
}

func TestFunctionsFailAsOnLambda(t *testing.T) {
	client := newFunction(t, "failing", 5, "")
	for event, want := range map[string]string{
		`{"do":"fail","text":"no luck"}`: "no luck",
		`{"do":"exit"}`:                  "Runtime",
		`{"do":"sleep"}`:                 "timed out after 2",
	} {
		out, failed, err := invoke(t, client, "failing", event)
		if err != nil || failed == "" || !strings.Contains(out, want) {
			t.Errorf("%s: answer %q, function error %q, %v; want an error with %q", event, out, failed, err, want)
		}
		if out, failed, err := invoke(t, client, "failing", `{"do":"say","text":"well"}`); err != nil || failed != "" || out != `"well"` {
			t.Errorf("after %s the function answers %q, %q, %v", event, out, failed, err)
		}
	}
}

func TestWrongArchitectureIsRefused(t *testing.T) {
	client := newFunction(t, "arch", 5, "")
	other := "arm64"
	if architecture() == lambdatypes.ArchitectureArm64 {
		other = "x86_64"
	}
	if _, err := client.UpdateFunctionCode(t.Context(), &lambda.UpdateFunctionCodeInput{
		FunctionName: aws.String("arch"), S3Bucket: aws.String(codeBucket), S3Key: &other}); err != nil {
		t.Fatal(err)
	}
	out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("arch"), Payload: []byte(`{"do":"say"}`)})
	if err != nil || !strings.Contains(string(out.Payload), "exec format error") {
		t.Errorf("code for %s gives %v, %v", other, out, err)
	}
}

func TestOutputGoesToTheLogGroup(t *testing.T) {
	client := newFunction(t, "logs", 5, "")
	if out, failed, err := invoke(t, client, "logs", `{"do":"say","text":"a line for the log"}`); err != nil || failed != "" {
		t.Fatal(out, failed, err)
	}
	eventually(t, "the line is in the log group", func() bool { return logged(t, "logs", "a line for the log") == 1 })
}

// logged is how many lines of a function's log group hold the text.
func logged(t *testing.T, function, text string) int {
	t.Helper()
	out, err := cloudwatchlogs.NewFromConfig(use(t).Config(t, account, region)).FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String("/test/" + function)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range out.Events {
		if strings.Contains(*e.Message, text) {
			n++
		}
	}
	return n
}

func TestQueuesDeliverInBatches(t *testing.T) {
	upload(t)
	s := newStacks(t)
	got := s.create(t, "deliver", functionTemplate("deliver", 5, "")+`,
		"Dead":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"deliver-dead"}},
		"Queue":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"deliver-work","VisibilityTimeout":1,
			"RedrivePolicy":{"deadLetterTargetArn":{"Fn::GetAtt":["Dead","Arn"]},"maxReceiveCount":2}}},
		"Source":{"Type":"AWS::Lambda::EventSourceMapping","Properties":{"EventSourceArn":{"Fn::GetAtt":["Queue","Arn"]},
			"FunctionName":{"Ref":"Alias"},"BatchSize":10,"FunctionResponseTypes":["ReportBatchItemFailures"],"ScalingConfig":{"MaximumConcurrency":2}}}`)
	if got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "deliver"))
	}
	config := use(t).Config(t, account, region)
	sources, err := lambda.NewFromConfig(config).ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{})
	if err != nil {
		t.Fatal(err)
	}
	source := sources.EventSourceMappings[0]
	if !strings.HasSuffix(*source.FunctionArn, ":function:deliver:live") || *source.ScalingConfig.MaximumConcurrency != 2 {
		t.Errorf("the event source is read back as %s, %+v", *source.FunctionArn, source.ScalingConfig)
	}
	client := sqs.NewFromConfig(config)
	for _, body := range []string{"good", "bad", "good"} {
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(queueURL(t, "deliver-work")), MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(queue string) string {
		out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl: aws.String(queueURL(t, queue)), AttributeNames: []sqsAttribute{"All"}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes["ApproximateNumberOfMessages"] + "+" + out.Attributes["ApproximateNumberOfMessagesNotVisible"]
	}
	eventually(t, "the bad message is dead and the good ones are gone", func() bool {
		return count("deliver-dead") == "1+0" && count("deliver-work") == "0+0"
	})
	if good, bad := logged(t, "deliver", "received good"), logged(t, "deliver", "received bad"); good != 2 || bad != 2 {
		t.Errorf("the function received %d good messages and the bad one %d times, want 2 and 2", good, bad)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 30 s it does not hold that %s", what)
		}
	}
}
