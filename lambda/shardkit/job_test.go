package shardkit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// drawJob draws a job that is valid.
func drawJob(t *rapid.T) shardkit.Job {
	text := rapid.StringMatching(`[ -~]{0,30}`)
	return shardkit.Job{
		ID: rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`).Draw(t, "id"), Tenant: tenants().Draw(t, "tenant"), Epoch: rapid.Uint64().Draw(t, "epoch"),
		Shard: text.Draw(t, "shard"), From: rapid.OneOf(rapid.Just(""), tenants()).Draw(t, "from"),
		RequestID: text.Draw(t, "request"), TraceParent: text.Draw(t, "parent"), TraceState: text.Draw(t, "state"),
		Hops: rapid.IntRange(0, 100).Draw(t, "hops"), Dispatches: rapid.IntRange(0, 20).Draw(t, "dispatches"), Reason: text.Draw(t, "reason"),
		Message: shardkit.Message{
			Method: rapid.SampledFrom([]string{"GET", "POST", "PATCH", "VERSION-CONTROL"}).Draw(t, "method"),
			Path:   "/" + rapid.StringMatching(`([a-z0-9.^~<>"&;=]([a-z0-9.^~<>"&;=]|%2F|/){0,20})?`).Draw(t, "path"), Query: rapid.StringMatching(`([a-z0-9=&+?/<>"]|%20){0,20}`).Draw(t, "query"),
			ContentType: text.Draw(t, "type"), Key: rapid.StringMatching(`[!-~]{0,257}`).Draw(t, "key"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		},
	}
}

func TestParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := drawJob(t)
		message, err := job.Encode()
		if err != nil {
			t.Fatalf("%+v: %v", job, err)
		}
		if strings.IndexFunc(string(message), func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Fatalf("%s is not plain text", message)
		}
		back, err := shardkit.ParseJob(message)
		if diff := cmp.Diff(job, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%s: %v (-want +got):\n%s", message, err, diff)
		}
	})
}

// TestTheRouterReadsTheSame: the router's job and the shard's are one message.
func TestTheRouterReadsTheSame(t *testing.T) {
	if routing.MaxHops != shardkit.MaxHops {
		t.Errorf("the router places jobs of %d hops, and shards send %d", routing.MaxHops, shardkit.MaxHops)
	}
	rapid.Check(t, func(t *rapid.T) {
		job := drawJob(t)
		message, err := job.Encode()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := routing.ParseJob(message)
		if err != nil {
			t.Fatalf("%s: the router says %v", message, err)
		}
		want := routing.Job{
			ID: job.ID, Tenant: routing.EncodeTenant(job.Tenant), Epoch: job.Epoch, Shard: job.Shard, Method: job.Method, Path: job.Path, RawQuery: job.Query,
			ContentType: job.ContentType, Key: job.Key, Body: job.Body, RequestID: job.RequestID, TraceParent: job.TraceParent, TraceState: job.TraceState,
			Hops: job.Hops, Dispatches: job.Dispatches, Reason: job.Reason,
		}
		if job.From != "" {
			want.From = routing.EncodeTenant(job.From)
		}
		if diff := cmp.Diff(want, theirs, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", message, diff)
		}
		again, err := theirs.Encode()
		if err != nil {
			t.Fatalf("%s: the router does not write what it reads: %v", message, err)
		}
		back, err := shardkit.ParseJob(again)
		if diff := cmp.Diff(job, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%s, from the router %s: %v (-want +got):\n%s", message, again, err, diff)
		}
		// Both ask the service the same.
		r, err := job.Request(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		asked := theirs.Request()
		if job.Shard == "" { // not placed yet, and no service's business
			asked.Header.Del(shardkit.HeaderShard)
		}
		if diff := cmp.Diff(map[string][]string(asked.Header), map[string][]string(r.Header)); diff != "" || r.Method != asked.Method {
			t.Fatalf("%s: headers (-router +shard):\n%s", message, diff)
		}
		target := asked.Path
		if asked.RawQuery != "" {
			target += "?" + asked.RawQuery
		}
		if r.RequestURI != target || r.URL.RawQuery != asked.RawQuery {
			t.Fatalf("%s: asks %q, the router %q", message, r.RequestURI, target)
		}
	})
}

// wrong are jobs that are none, of which neither side may say otherwise.
var wrong = []string{
	``, `{`, `[]`, `{}`, `null`, `"x"`,
	`{"id":"","tenant":"a","method":"POST","path":"/x"}`, `{"id":"a b","tenant":"a","method":"POST","path":"/x"}`, `{"id":"a/b","tenant":"a","method":"POST","path":"/x"}`,
	`{"id":"` + strings.Repeat("j", 129) + `","tenant":"a","method":"POST","path":"/x"}`,
	`{"id":"j","tenant":"","method":"POST","path":"/x"}`, `{"id":"j","tenant":"a b","method":"POST","path":"/x"}`, `{"id":"j","tenant":"%41","method":"POST","path":"/x"}`,
	`{"id":"j","tenant":"a","from":"%41","method":"POST","path":"/x"}`, `{"id":"j","tenant":"a","from":"%FF","method":"POST","path":"/x"}`,
	`{"id":"j","tenant":"a","method":"","path":"/x"}`, `{"id":"j","tenant":"a","method":"post","path":"/x"}`, `{"id":"j","tenant":"a","method":"PO ST","path":"/x"}`,
	`{"id":"j","tenant":"a","method":"POST","path":""}`, `{"id":"j","tenant":"a","method":"POST","path":"x"}`, `{"id":"j","tenant":"a","method":"POST","path":"//evil/x"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/a?b"}`, `{"id":"j","tenant":"a","method":"POST","path":"/a#b"}`, `{"id":"j","tenant":"a","method":"POST","path":"/%zz"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/a b"}`, `{"id":"j","tenant":"a","method":"POST","path":"/\u00e4"}`, `{"id":"j","tenant":"a","method":"POST","path":"/a\nb"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x","query":"a#b"}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","query":"a b"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/` + strings.Repeat("x", 8<<10) + `"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x","epoch":-1}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","epoch":18446744073709551616}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","epoch":"1"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x","body":"!"}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","dispatches":-1}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","dispatches":1e9}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x","key":"\u0007"}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","key":"` + strings.Repeat("k", 258) + `"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x","contentType":"a\r\nb"}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","requestId":"\u00e4"}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","traceparent":"` + strings.Repeat("x", 1025) + `"}`,
	`{"id":"j","tenant":"a","method":"POST","path":"/x"}` + strings.Repeat(" ", shardkit.MaxJob), `{"id":"j","tenant":"a","method":"POST","path":"/x"}{}`,
}

func TestJobsThatAreNone(t *testing.T) {
	for _, message := range wrong {
		short := message[:min(len(message), 120)]
		if _, err := shardkit.ParseJob([]byte(message)); !errors.Is(err, shardkit.ErrJob) {
			t.Errorf("%s is read: %v", short, err)
		}
		if _, err := routing.ParseJob([]byte(message)); err == nil {
			t.Errorf("%s is read by the router", short)
		}
	}
	large := shardkit.Job{ID: "j", Tenant: "a", Message: shardkit.Message{Method: "POST", Path: "/", Body: make([]byte, shardkit.MaxJob*3/4)}}
	if _, err := large.Encode(); !errors.Is(err, shardkit.ErrJob) {
		t.Errorf("a job that no queue takes is written: %v", err)
	}
	if _, err := (shardkit.Job{}).Encode(); !errors.Is(err, shardkit.ErrJob) {
		t.Errorf("no job is written: %v", err)
	}
	// Members of later versions are passed over.
	if j, err := shardkit.ParseJob([]byte(`{"id":"j","tenant":"a","method":"POST","path":"/x","later":{"a":1}}`)); err != nil || j.ID != "j" {
		t.Errorf("%+v, %v", j, err)
	}
	if shardkit.MaxJob != routing.MaxJob {
		t.Error("router and shard take jobs of different sizes")
	}
}

// FuzzParseJob holds that router and shard take the same messages, that what is taken is written again, and that a
// request can be made of it which asks what the job says.
func FuzzParseJob(f *testing.F) {
	for _, message := range wrong[:len(wrong)-2] {
		f.Add([]byte(message))
	}
	f.Add([]byte(`{"id":"j1","tenant":"%C3%84rzte","epoch":3,"shard":"s01","from":"acme","method":"POST","path":"/jobs/1","query":"a=b","contentType":"text/plain","key":"k","body":"AHdvcms=","requestId":"r","traceparent":"t","tracestate":"s","dispatches":2,"reason":"x"}`))
	f.Fuzz(func(t *testing.T, message []byte) {
		job, err := shardkit.ParseJob(message)
		theirs, theirErr := routing.ParseJob(message)
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("the shard says %v, the router %v", err, theirErr)
		}
		if err != nil {
			return
		}
		again, err := job.Encode()
		if err != nil {
			if len(again) == 0 && len(message) > shardkit.MaxJob/2 {
				return // its spelling was shorter
			}
			t.Fatal(err)
		}
		back, err := shardkit.ParseJob(again)
		if diff := cmp.Diff(job, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		r, err := job.Request(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.URL.Host != "" || r.URL.RawQuery != job.Query || theirs.Path != job.Path || len(r.Header.Values(shardkit.HeaderTenant)) != 1 {
			t.Fatalf("%s asks %v", message, r.URL)
		}
		if err := r.Write(&bytes.Buffer{}); err != nil && r.Host != "" {
			t.Fatalf("%s cannot be sent: %v", message, err)
		}
	})
}

// TestJobsRequest: what the service is told of a job.
func TestJobsRequest(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.UnixMilli(32503680000000))
	defer cancel()
	job := shardkit.Job{ID: "j1", Tenant: "Ärzte", Epoch: 3, Shard: "s01", From: "acme", RequestID: "r", TraceParent: "tp", TraceState: "ts",
		Message: shardkit.Message{Method: "POST", Path: "/jobs/a%2Fb", Query: "x=%20", ContentType: "text/plain", Body: []byte("work")}}
	r, err := job.Request(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Cellwall-Tenant": {"%C3%84rzte"}, "Cellwall-Epoch": {"3"}, "Cellwall-Shard": {"s01"}, "Cellwall-Job": {"j1"}, "Cellwall-From": {"acme"},
		"Cellwall-Deadline": {"32503680000000"}, "Idempotency-Key": {"j1"}, "Content-Type": {"text/plain"},
		"X-Request-Id": {"r"}, "Traceparent": {"tp"}, "Tracestate": {"ts"},
	}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if r.URL.EscapedPath() != "/jobs/a%2Fb" || r.URL.RawQuery != "x=%20" || r.ContentLength != 4 {
		t.Errorf("asks %v with %d bytes", r.URL, r.ContentLength)
	}
	job.Key = `"k"`
	if r, err = job.Request(t.Context()); err != nil || r.Header.Get("Idempotency-Key") != `"k"` || r.Header.Get("Cellwall-Deadline") != "" {
		t.Errorf("headers %v, %v", r.Header, err)
	}
	// The message, as docs/shard-contract.md has it.
	message, err := job.Encode()
	const text = `{"id":"j1","tenant":"%C3%84rzte","epoch":3,"shard":"s01","from":"acme","method":"POST","path":"/jobs/a%2Fb","query":"x=%20",` +
		`"contentType":"text/plain","key":"\"k\"","body":"d29yaw==","requestId":"r","traceparent":"tp","tracestate":"ts"}`
	if err != nil || string(message) != text || !json.Valid(message) {
		t.Errorf("written as %s, %v", message, err)
	}
}
