package awsemu_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// open are the two permissions that a URL needs, each with the resource's name.
var open = []string{
	`,"Open":{"Type":"AWS::Lambda::Permission","Properties":{"FunctionName":{"Ref":"Alias"},"Principal":"*","Action":"lambda:InvokeFunctionUrl","FunctionUrlAuthType":"NONE"}}`,
	`,"OpenByUrl":{"Type":"AWS::Lambda::Permission","Properties":{"FunctionName":{"Ref":"Alias"},"Principal":"*","Action":"lambda:InvokeFunction","InvokedViaFunctionUrl":true}}`,
}

func urlTemplate(name, auth, mode, stream string, permissions ...string) string {
	return functionTemplate(name, 5, `,"Environment":{"Variables":{"STREAM":"`+stream+`"}}`) + `,
		"Url":{"Type":"AWS::Lambda::Url","DependsOn":"Alias","Properties":{"TargetFunctionArn":{"Fn::GetAtt":["Function","Arn"]},"Qualifier":"live",
			"AuthType":"` + auth + `","InvokeMode":"` + mode + `"}}` + strings.Join(permissions, "")
}

// urlOf reads back a function's URL.
func urlOf(t *testing.T, name string) *lambda.GetFunctionUrlConfigOutput {
	t.Helper()
	out, err := lambda.NewFromConfig(use(t).Config(t, account, region)).GetFunctionUrlConfig(t.Context(), &lambda.GetFunctionUrlConfigInput{
		FunctionName: &name, Qualifier: aws.String("live")})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// askURL sends a request to a function's URL.
func askURL(t *testing.T, name string) (*http.Response, string) {
	t.Helper()
	url := strings.Replace(*urlOf(t, name).FunctionUrl, "https://", "http://", 1)
	request, err := http.NewRequestWithContext(t.Context(), "PUT", url+"orders/a%2Fb?a=1&a=x%20y", strings.NewReader("two crates"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Test", "yes")
	request.Header.Set("Cookie", "c=1; d=2")
	response, err := use(t).Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestURLsServe: a request to a URL comes to the function behind its alias as Lambda hands it over, and the answer back,
// whole or as a stream; and only where both permissions are there.
func TestURLsServe(t *testing.T) {
	upload(t)
	s := newStacks(t)
	for mode, stream := range map[string]string{"BUFFERED": "0", "RESPONSE_STREAM": "1"} {
		name := "url-" + stream
		template := func(permissions ...string) string { return urlTemplate(name, "NONE", mode, stream, permissions...) }
		if got := s.create(t, name, template(open[0])); got != "CREATE_COMPLETE" {
			t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
		}
		if response, body := askURL(t, name); response.StatusCode != http.StatusForbidden {
			t.Errorf("with one of two permissions the URL answers %d: %s", response.StatusCode, body)
		}
		if got := s.update(t, name, template(open...)); got != "UPDATE_COMPLETE" {
			t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
		}
		response, body := askURL(t, name)
		want := "PUT /orders/a%2Fb a=1&a=x%20y 1,x y yes c=1+d=2 " + base64.StdEncoding.EncodeToString([]byte("two crates"))
		if response.StatusCode != 203 || body != want || response.Header.Get("X-Answer") != "echo" ||
			!slices.Equal(response.Header.Values("Set-Cookie"), []string{"a=1", "b=2"}) {
			t.Errorf("%s: answered %d %q, %v, want %q", mode, response.StatusCode, body, response.Header, want)
		}
		if url := urlOf(t, name); string(url.InvokeMode) != mode || url.AuthType != lambdatypes.FunctionUrlAuthTypeNone || !strings.HasSuffix(*url.FunctionArn, ":function:"+name+":live") {
			t.Errorf("the URL is read back as %+v", url)
		}
	}
	if got := s.update(t, "url-0", urlTemplate("url-0", "NONE", "RESPONSE_STREAM", "0", open...)); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "url-0"))
	}
	if response, body := askURL(t, "url-0"); response.StatusCode != http.StatusBadGateway {
		t.Errorf("a whole answer where a stream is due: %d %s", response.StatusCode, body)
	}
	if got := s.update(t, "url-1", urlTemplate("url-1", "AWS_IAM", "RESPONSE_STREAM", "1", open...)); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "url-1"))
	}
	if response, body := askURL(t, "url-1"); response.StatusCode != http.StatusForbidden {
		t.Errorf("a URL for AWS_IAM answers %d: %s", response.StatusCode, body)
	}
	// The permissions are the alias's, and stay with it when that leads to another version.
	client := lambda.NewFromConfig(use(t).Config(t, account, region))
	next, err := client.PublishVersion(t.Context(), &lambda.PublishVersionInput{FunctionName: aws.String("url-1")})
	if err == nil {
		_, err = client.UpdateAlias(t.Context(), &lambda.UpdateAliasInput{FunctionName: aws.String("url-1"), Name: aws.String("live"), FunctionVersion: next.Version})
	}
	if err != nil {
		t.Fatal(err)
	}
	policy, err := client.GetPolicy(t.Context(), &lambda.GetPolicyInput{FunctionName: aws.String("url-1"), Qualifier: aws.String("live")})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{`"lambda:FunctionUrlAuthType": "NONE"`, `"lambda:InvokedViaFunctionUrl": "true"`} {
		if !strings.Contains(*policy.Policy, condition) {
			t.Errorf("the policy has no %s: %s", condition, *policy.Policy)
		}
	}
	if _, err := client.GetPolicy(t.Context(), &lambda.GetPolicyInput{FunctionName: aws.String("url-1")}); err == nil {
		t.Error("the function has the policy of its alias")
	}
}

// TestFunctionsStream: a function that is invoked for a stream answers with one, in more than one part when it is long,
// and a failure ends it.
func TestFunctionsStream(t *testing.T) {
	client := newFunction(t, "streams", 5, `,"Environment":{"Variables":{"STREAM":"1"}}`)
	ask := func(payload string) (body string, parts int, end lambdatypes.InvokeWithResponseStreamCompleteEvent) {
		t.Helper()
		out, err := client.InvokeWithResponseStream(t.Context(), &lambda.InvokeWithResponseStreamInput{
			FunctionName: aws.String("streams"), Qualifier: aws.String("live"), Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		stream := out.GetStream()
		defer stream.Close()
		for e := range stream.Events() {
			switch e := e.(type) {
			case *lambdatypes.InvokeWithResponseStreamResponseEventMemberPayloadChunk:
				body += string(e.Value.Payload)
				parts++
			case *lambdatypes.InvokeWithResponseStreamResponseEventMemberInvokeComplete:
				end = e.Value
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return body, parts, end
	}
	long := strings.Repeat("x", 100<<10)
	body, parts, end := ask(`{"version":"2.0","rawPath":"/` + long + `"}`)
	head, rest, _ := strings.Cut(body, strings.Repeat("\x00", 8))
	if !strings.Contains(head, `"statusCode":203`) || !strings.Contains(rest, long) || parts < 2 || end.ErrorCode != nil {
		t.Errorf("%d parts of %d bytes, head %.80q, end %+v", parts, len(body), head, end)
	}
	if body, _, end := ask(`{"do":"fail","text":"no luck"}`); body != "" || aws.ToString(end.ErrorCode) != "Unhandled" || !strings.Contains(aws.ToString(end.ErrorDetails), "no luck") {
		t.Errorf("a failure is %q, %+v", body, end)
	}
}

// TestProvisionedConcurrency: what an alias has is read back, changed and taken away, and refused where Lambda refuses it.
func TestProvisionedConcurrency(t *testing.T) {
	const name = "kept-started"
	upload(t)
	s := newStacks(t)
	template := func(reserved int, provisioned string) string {
		return strings.Replace(functionTemplate(name, reserved, ""), `"Name":"live"`, `"Name":"live"`+provisioned, 1)
	}
	keep := func(n int) string {
		return fmt.Sprintf(`,"ProvisionedConcurrencyConfig":{"ProvisionedConcurrentExecutions":%d}`, n)
	}
	client := lambda.NewFromConfig(use(t).Config(t, account, region), func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
	expect := func(want int) {
		t.Helper()
		out, err := client.GetProvisionedConcurrencyConfig(t.Context(), &lambda.GetProvisionedConcurrencyConfigInput{FunctionName: aws.String(name), Qualifier: aws.String("live")})
		var none *lambdatypes.ProvisionedConcurrencyConfigNotFoundException
		if want == 0 && errors.As(err, &none) {
			return
		}
		if err != nil || int(*out.RequestedProvisionedConcurrentExecutions) != want || out.Status != lambdatypes.ProvisionedConcurrencyStatusEnumReady {
			t.Errorf("%+v, %v; want %d", out, err, want)
		}
	}

	if got := s.create(t, name+"-too-many", strings.ReplaceAll(template(5, keep(6)), name, name+"-too-many")); got != "ROLLBACK_COMPLETE" ||
		!strings.Contains(s.reasons(t, name+"-too-many"), "should not be greater than the reservedConcurrentExecution") {
		t.Errorf("more than is reserved: the stack is %s:\n%s", got, s.reasons(t, name+"-too-many"))
	}
	if got := s.create(t, name, template(5, keep(3))); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	expect(3)
	if got := s.update(t, name, template(5, keep(4))); got != "UPDATE_COMPLETE" {
		t.Errorf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	expect(4)
	var refused *lambdatypes.InvalidParameterValueException
	if _, err := client.PutProvisionedConcurrencyConfig(t.Context(), &lambda.PutProvisionedConcurrencyConfigInput{
		FunctionName: aws.String(name), Qualifier: aws.String("$LATEST"), ProvisionedConcurrentExecutions: aws.Int32(1)}); !errors.As(err, &refused) {
		t.Errorf("of what is not published: %v", err)
	}
	if _, err := client.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
		FunctionName: aws.String(name), ReservedConcurrentExecutions: aws.Int32(3)}); !errors.As(err, &refused) {
		t.Errorf("reserving less than is kept started: %v", err)
	}
	if got := s.update(t, name, template(5, "")); got != "UPDATE_COMPLETE" {
		t.Errorf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	expect(0)
}
