// Command function is the Lambda function of the emulator's own tests: it does what its event says.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

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
}

type failure struct {
	ID string `json:"itemIdentifier"`
}

func handle(_ context.Context, e event) (any, error) {
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

func main() { lambda.Start(handle) }
