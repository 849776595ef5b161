// Command function is the Lambda function of the emulator's own tests: it does what its event says.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

type event struct {
	Do      string `json:"do"` // say, fail, exit, sleep, environment; else records are consumed
	Text    string `json:"text"`
	Records []struct {
		ID         string            `json:"messageId"`
		Body       string            `json:"body"`
		Attributes map[string]string `json:"attributes"`
	} `json:"Records"`
	events.LambdaFunctionURLRequest // of a URL, when it has a version
}

type failure struct {
	ID string `json:"itemIdentifier"`
}

func handle(_ context.Context, e event) (any, error) {
	if e.Version != "" {
		return echo(e.LambdaFunctionURLRequest), nil
	}
	switch e.Do {
	case "say":
		fmt.Println(e.Text)
		return e.Text, nil
	case "fail":
		return nil, errors.New(e.Text)
	case "exit":
		os.Exit(3)
	case "sleep":
		time.Sleep(3 * time.Second)
		return e.Text, nil
	case "environment":
		return os.Environ(), nil
	}
	failures := []failure{}
	for _, r := range e.Records {
		fmt.Printf("received %s, time %s\n", r.Body, r.Attributes["ApproximateReceiveCount"])
		if r.Body == "bad" {
			failures = append(failures, failure{r.ID})
		}
	}
	return map[string]any{"batchItemFailures": failures}, nil
}

// echo answers a URL's request with what it was, as a stream if the environment says so.
func echo(r events.LambdaFunctionURLRequest) any {
	body := strings.Join([]string{r.RequestContext.HTTP.Method, r.RawPath, r.RawQueryString, r.QueryStringParameters["a"], r.Headers["x-test"],
		strings.Join(r.Cookies, "+"), r.Body}, " ")
	headers, cookies := map[string]string{"X-Answer": "echo", "Content-Type": "text/plain"}, []string{"a=1", "b=2"}
	if os.Getenv("STREAM") == "1" {
		return &events.LambdaFunctionURLStreamingResponse{StatusCode: 203, Headers: headers, Cookies: cookies, Body: strings.NewReader(body)}
	}
	return events.LambdaFunctionURLResponse{StatusCode: 203, Headers: headers, Cookies: cookies, Body: body}
}

func main() { lambda.Start(handle) }
