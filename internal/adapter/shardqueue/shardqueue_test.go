package shardqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// queues is SQS's API over HTTP, behind the real SDK client.
type queues struct {
	mu       sync.Mutex
	lookups  int
	messages []map[string]any
	refuse   func(w http.ResponseWriter) // when set, answers SendMessage
}

func (q *queues) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch r.Header.Get("X-Amz-Target") {
	case "AmazonSQS.GetQueueUrl":
		q.lookups++
		if in["QueueName"] == "orders-eu-1-gone-work" {
			fault(w, 400, "com.amazonaws.sqs#QueueDoesNotExist")
			return
		}
		fmt.Fprintf(w, `{"QueueUrl":"https://sqs.example.com/111111111111/%s"}`, in["QueueName"])
	case "AmazonSQS.SendMessage":
		q.messages = append(q.messages, in)
		if q.refuse != nil {
			q.refuse(w)
			return
		}
		io.WriteString(w, `{"MessageId":"m1"}`)
	}
}

// TestPut: a job that was placed again goes into its shard's queue as it is, in its tenant's group.
func TestPut(t *testing.T) {
	q := &queues{}
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	tr := New(sqs.New(sqs.Options{Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, Once),
		func(shard string) string { return "orders-eu-1-" + shard + "-work" })
	job := routing.Job{ID: "j1", Tenant: "%C3%A4", Epoch: 9, Shard: "s07", Method: "POST", Path: "/jobs/1", Dispatches: 2, Body: []byte("x")}
	if err := tr.Put(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if len(q.messages) != 1 || q.messages[0]["QueueUrl"] != "https://sqs.example.com/111111111111/orders-eu-1-s07-work" || q.messages[0]["MessageGroupId"] != names.Tenant("ä") {
		t.Fatalf("sent %v", q.messages)
	}
	got, err := routing.ParseJob([]byte(q.messages[0]["MessageBody"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job, got); diff != "" {
		t.Errorf("job (-put +sent):\n%s", diff)
	}
	for name, bad := range map[string]routing.Job{"no tenant": {ID: "j1", Shard: "s07", Method: "POST", Path: "/"}, "no id": {Tenant: "acme", Shard: "s07", Method: "POST", Path: "/"}} {
		if err := tr.Put(t.Context(), bad); err == nil || len(q.messages) != 1 {
			t.Errorf("%s: %v, %d messages", name, err, len(q.messages))
		}
	}
	job.Shard = "gone"
	if err := tr.Put(t.Context(), job); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a shard without a queue: %v", err)
	}
}

func (q *queues) sent() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

func fault(w http.ResponseWriter, status int, kind string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, kind)
}

func transport(t *testing.T, q *queues) *Transport {
	t.Helper()
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	client := sqs.New(sqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), DisableMessageChecksumValidation: true,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, Once)
	return New(client, func(shard string) string { return "orders-eu-1-" + shard + "-work" })
}

var (
	call = routing.Call{Tenant: "Ärzte", Epoch: 3, Shard: "s01"}
	post = &routing.Request{Method: "POST", Path: "/jobs/1", RawQuery: "a=b", Body: []byte("\x00work"),
		Header: http.Header{"Content-Type": {"text/plain"}, "Authorization": {"Bearer secret"}}}
)

func TestMessage(t *testing.T) {
	q := &queues{}
	tr := transport(t, q)
	resp, err := tr.Send(t.Context(), call, post)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Job string }
	if err := json.Unmarshal(resp.Body, &answer); err != nil || answer.Job == "" || resp.Status != 202 {
		t.Fatalf("answered %d %s", resp.Status, resp.Body)
	}
	if strings.Contains(string(resp.Body), "s01") {
		t.Errorf("the answer names the shard: %s", resp.Body)
	}
	got := q.messages[0]
	if got["QueueUrl"] != "https://sqs.example.com/111111111111/orders-eu-1-s01-work" || got["MessageGroupId"] != names.Tenant("Ärzte") {
		t.Errorf("sent %v", got)
	}
	job, err := routing.ParseJob([]byte(got["MessageBody"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	want := routing.Job{ID: answer.Job, Tenant: "%C3%84rzte", Epoch: 3, Shard: "s01", Method: "POST", Path: "/jobs/1", RawQuery: "a=b",
		ContentType: "text/plain", Body: []byte("\x00work")}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	again, err := tr.Send(t.Context(), call, post)
	if err != nil || string(again.Body) == string(resp.Body) {
		t.Errorf("a second job: %s, %v", again.Body, err)
	}
	keyed := *post
	keyed.Header = http.Header{"Idempotency-Key": {"k1"}}
	if resp, err = tr.Send(t.Context(), call, &keyed); err != nil {
		t.Fatal(err)
	}
	elsewhere := routing.Call{Tenant: call.Tenant, Epoch: 4, Shard: "s02"}
	if again, err = tr.Send(t.Context(), elsewhere, &keyed); err != nil || string(again.Body) != string(resp.Body) {
		t.Errorf("the repeat of a keyed request is %s, and was %s at first; %v", again.Body, resp.Body, err)
	}
	if q.lookups != 2 {
		t.Errorf("two queues were looked up %d times", q.lookups)
	}
}

func TestClassification(t *testing.T) {
	tests := []struct {
		name    string
		refuse  func(http.ResponseWriter)
		notSent bool
	}{
		{"access denied", func(w http.ResponseWriter) { fault(w, 403, "com.amazonaws.sqs#AccessDeniedException") }, true},
		{"queue is gone", func(w http.ResponseWriter) { fault(w, 400, "com.amazonaws.sqs#QueueDoesNotExist") }, true},
		{"throttled", func(w http.ResponseWriter) { fault(w, 400, "com.amazonaws.sqs#RequestThrottled") }, true},
		{"internal error", func(w http.ResponseWriter) { fault(w, 500, "com.amazonaws.sqs#InternalFailure") }, false},
		{"connection breaks", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := &queues{refuse: test.refuse}
			_, err := transport(t, q).Send(t.Context(), call, post)
			if err == nil || errors.Is(err, routing.ErrNotSent) != test.notSent {
				t.Errorf("not sent: want %t, got %v", test.notSent, err)
			}
			if n := q.sent(); n != 1 {
				t.Errorf("%d messages: the SDK repeated it", n)
			}
		})
	}
}

func TestUnknownQueueIsNotSent(t *testing.T) {
	q := &queues{}
	gone := call
	gone.Shard = "gone"
	if _, err := transport(t, q).Send(t.Context(), gone, post); !errors.Is(err, routing.ErrNotSent) || q.sent() > 0 {
		t.Errorf("%v, %d messages", err, q.sent())
	}
}

func TestTooLargeIsNotSent(t *testing.T) {
	q := &queues{}
	large := *post
	large.Body = make([]byte, routing.MaxJob*3/4)
	if _, err := transport(t, q).Send(t.Context(), call, &large); !errors.Is(err, routing.ErrTooLarge) || q.sent() > 0 {
		t.Errorf("%v, %d messages", err, q.sent())
	}
}

func TestConcurrent(t *testing.T) {
	q := &queues{}
	tr := transport(t, q)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			c := call
			c.Shard = fmt.Sprintf("s%02d", n%4)
			if _, err := tr.Send(context.Background(), c, post); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := q.sent(); n != 16 {
		t.Errorf("%d messages", n)
	}
}

// TestWhatNoShardReadsIsRefused: by its sender's fault, at once, and not by each delivery.
func TestWhatNoShardReadsIsRefused(t *testing.T) {
	q := &queues{}
	for name, value := range map[string]string{"Idempotency-Key": strings.Repeat("k", 258)} {
		bad := *post
		bad.Header = http.Header{name: {value}}
		if resp, err := transport(t, q).Send(t.Context(), call, &bad); err != nil || resp.Status != 400 || q.sent() > 0 {
			t.Errorf("%s: %+v, %v, %d messages", name, resp, err, q.sent())
		}
	}
	bad := *post
	bad.Path = "/" + strings.Repeat("x", 8<<10)
	if resp, err := transport(t, q).Send(t.Context(), call, &bad); err != nil || resp.Status != 400 || q.sent() > 0 {
		t.Errorf("long path: %+v, %v, %d messages", resp, err, q.sent())
	}
}

// TestJobs puts what a shard gives back into the cell's queue, as it is.
func TestJobs(t *testing.T) {
	q := &queues{}
	jobs := NewJobs(transport(t, q).client, "orders-eu-1-dispatch")
	job := shardkit.Job{ID: "j1", Tenant: "Ärzte", Epoch: 3, Dispatches: 2, Message: shardkit.Message{Method: "POST", Path: "/jobs/1"}}
	for range 2 {
		if err := jobs.Put(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	got := q.messages[1]
	if got["QueueUrl"] != "https://sqs.example.com/111111111111/orders-eu-1-dispatch" || got["MessageGroupId"] != names.Tenant("Ärzte") || q.lookups != 1 {
		t.Errorf("sent %v after %d look-ups", got, q.lookups)
	}
	if back, err := shardkit.ParseJob([]byte(got["MessageBody"].(string))); err != nil || cmp.Diff(job, back) != "" {
		t.Errorf("sent %+v, %v", back, err)
	}
	q.refuse = func(w http.ResponseWriter) { fault(w, 403, "com.amazonaws.sqs#AccessDeniedException") }
	gone := NewJobs(jobs.client, "orders-eu-1-gone-work")
	bad := job
	bad.ID = ""
	if jobs.Put(t.Context(), job) == nil || gone.Put(t.Context(), job) == nil || !errors.Is(gone.Put(t.Context(), bad), shardkit.ErrJob) {
		t.Error("what was not sent is said to be")
	}
}
