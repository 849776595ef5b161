package shardlambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/routing"
)

// answer is what Lambda's API says to an invocation.
type answer struct {
	status        int
	errorType     string // X-Amzn-ErrorType
	functionError string // X-Amz-Function-Error
	body          string
}

// api is Lambda's API over HTTP, behind the real SDK client.
func api(t *testing.T, handle http.HandlerFunc) *Transport {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return New(client(server.URL), func(shard string) string { return "orders-eu-1-" + shard + "-worker:live" })
}

func client(url string) *lambda.Client {
	return lambda.New(lambda.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, Once)
}

var (
	call = routing.Call{Tenant: "acme", Epoch: 3, Shard: "s01"}
	put  = &routing.Request{Method: "PUT", Path: "/orders/1", Body: []byte("x"), Header: http.Header{"Cellwall-Tenant": {"acme"}}}
)

func TestInvokesTheAlias(t *testing.T) {
	tr := api(t, func(w http.ResponseWriter, r *http.Request) {
		if want := "/2015-03-31/functions/orders-eu-1-s01-worker%3Alive/invocations"; r.URL.EscapedPath() != want {
			t.Errorf("path %s, want %s", r.URL.EscapedPath(), want)
		}
		if kind := r.Header.Get("X-Amz-Invocation-Type"); kind != "" && kind != "RequestResponse" {
			t.Errorf("invocation type %q", kind)
		}
		var event map[string]any
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		if event["version"] != "2.0" || event["rawPath"] != "/orders/1" || event["headers"].(map[string]any)["cellwall-tenant"] != "acme" {
			t.Errorf("event %v", event)
		}
		io.WriteString(w, `{"statusCode":201,"headers":{"x-a":"b"},"body":"made"}`)
	})
	resp, err := tr.Send(t.Context(), call, put)
	if err != nil || resp.Status != 201 || resp.Header.Get("X-A") != "b" || string(resp.Body) != "made" {
		t.Errorf("answered %+v, %v", resp, err)
	}
}

// TestClassification is what each failure says about the effect of the request.
func TestClassification(t *testing.T) {
	const none, notSent, slow, large = "unknown", "not sent", "too slow", "too large"
	tests := []struct {
		answer
		want string
	}{
		{answer{status: 429, errorType: "TooManyRequestsException", body: `{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","Message":"Rate Exceeded."}`}, notSent},
		{answer{status: 404, errorType: "ResourceNotFoundException"}, notSent},
		{answer{status: 502, errorType: "ResourceNotReadyException"}, notSent},
		{answer{status: 409, errorType: "ResourceConflictException"}, notSent},
		{answer{status: 502, errorType: "EC2ThrottledException"}, notSent},
		{answer{status: 502, errorType: "ENILimitReachedException"}, notSent},
		{answer{status: 502, errorType: "SubnetIPAddressLimitReachedException"}, notSent},
		{answer{status: 502, errorType: "KMSAccessDeniedException"}, notSent},
		{answer{status: 502, errorType: "InvalidRuntimeException"}, notSent},
		{answer{status: 403, errorType: "AccessDeniedException"}, notSent},
		{answer{status: 413, errorType: "RequestTooLargeException"}, large},
		{answer{status: 500, errorType: "ServiceException"}, none},
		{answer{status: 502, errorType: "EC2UnexpectedException"}, none},
		{answer{status: 410, errorType: "EFSIOException"}, none},
		{answer{status: 503, errorType: "ServiceUnavailable"}, none},
		{answer{status: 504, errorType: "Unheard"}, none},
		{answer{status: 200, functionError: "Unhandled", body: `{"errorMessage":"RequestId: 1 Error: Runtime exited with error: exit status 1","errorType":"Runtime.ExitError"}`}, none},
		{answer{status: 200, functionError: "Unhandled", body: `{"errorMessage":"2026-11-30T10:00:00Z 1 Task timed out after 20.00 seconds"}`}, slow},
		{answer{status: 200, functionError: "Unhandled", body: `{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: 1 Error: Task timed out after 20.00 seconds"}`}, slow},
		{answer{status: 200, functionError: "Unhandled", body: `nonsense`}, none},
		{answer{status: 200, body: `{"errorMessage":"x","errorType":"y"}`}, none},
		{answer{status: 200, body: `null`}, none},
		{answer{status: 200, body: ``}, none},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.status, test.errorType, test.functionError, test.body), func(t *testing.T) {
			var invocations atomic.Int32
			tr := api(t, func(w http.ResponseWriter, _ *http.Request) {
				invocations.Add(1)
				if test.errorType != "" {
					w.Header().Set("X-Amzn-ErrorType", test.errorType)
				}
				if test.functionError != "" {
					w.Header().Set("X-Amz-Function-Error", test.functionError)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			resp, err := tr.Send(t.Context(), call, put)
			if err == nil {
				t.Fatalf("answered %+v", resp)
			}
			got := none
			switch {
			case errors.Is(err, routing.ErrNotSent):
				got = notSent
			case errors.Is(err, context.DeadlineExceeded):
				got = slow
			case errors.Is(err, routing.ErrTooLarge):
				got = large
			}
			if got != test.want {
				t.Errorf("%v is classified as %s, want %s", err, got, test.want)
			}
			if n := invocations.Load(); n != 1 {
				t.Errorf("invoked %d times: the SDK repeated it", n)
			}
		})
	}
}

// TestAnswerTooLarge: the function ran to its end, and would answer the same elsewhere.
func TestAnswerTooLarge(t *testing.T) {
	tr := api(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		io.WriteString(w, `{"errorType":"Function.ResponseSizeTooLarge","errorMessage":"Response payload size (7340032 bytes) exceeded maximum allowed payload size (6291556 bytes)."}`)
	})
	resp, err := tr.Send(t.Context(), call, put)
	if err != nil || resp.Status != 500 || !strings.Contains(string(resp.Body), routing.TypeAnswerTooLarge) {
		t.Errorf("answered %+v, %v", resp, err)
	}
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	listener.Close()
	_, err = New(client(url), func(string) string { return "f" }).Send(t.Context(), call, put)
	if !errors.Is(err, routing.ErrNotSent) {
		t.Errorf("a connection that was refused: %v", err)
	}
}

func TestConnectionThatBreaksMayHaveRun(t *testing.T) {
	breaks := map[string]func(http.ResponseWriter){
		"closed": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"reset": func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.(*net.TCPConn).SetLinger(0) // closing sends a reset
			conn.Close()
		},
	}
	for name, broken := range breaks {
		var invocations atomic.Int32
		tr := api(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			invocations.Add(1)
			broken(w)
		})
		if _, err := tr.Send(t.Context(), call, put); err == nil || errors.Is(err, routing.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
		if n := invocations.Load(); n != 1 {
			t.Errorf("%s: invoked %d times", name, n)
		}
	}
}

func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	tr := api(t, func(http.ResponseWriter, *http.Request) { <-release })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := tr.Send(ctx, call, put); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, routing.ErrNotSent) {
		t.Errorf("a slice that hangs: %v", err)
	}
}

func TestTooLargeIsNotInvoked(t *testing.T) {
	tr := api(t, func(http.ResponseWriter, *http.Request) { t.Error("invoked") })
	large := *put
	large.Body = []byte(strings.Repeat("\xff", routing.MaxBody*3/4)) // a third more in base64
	if _, err := tr.Send(t.Context(), call, &large); !errors.Is(err, routing.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}
