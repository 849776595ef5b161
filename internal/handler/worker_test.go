package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

func TestWorkerServesRequests(t *testing.T) {
	w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "too late")
		fmt.Fprintf(w, "%s %s %s %q %s %s %s", r.Method, r.Host, r.URL.EscapedPath(), r.URL.Query()["q"], body, r.Header.Get("Cellwall-Tenant"), r.RequestURI)
	}), quiet())
	payload, err := awsevent.FormatRequest(&routing.Request{
		Method: "PUT", Path: "/a%2Fb", RawQuery: "q=1&q=%20", Body: []byte("x\x00y"),
		Header: http.Header{"Host": {"api.example.com"}, "Cellwall-Tenant": {"acme"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := invoke(t, w, string(payload))
	want := &routing.Response{Status: 201, Header: http.Header{"Set-Cookie": {"a=1", "b=2"}},
		Body: []byte("PUT api.example.com /a%2Fb [\"1\" \" \"] x\x00y acme /a%2Fb?q=1&q=%20")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestWorkerAnswersWithoutAWord(t *testing.T) {
	w := NewWorker(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), quiet())
	payload, _ := awsevent.FormatRequest(&routing.Request{Method: "GET", Path: "/"})
	if got := invoke(t, w, string(payload)); got.Status != 200 || len(got.Body) > 0 {
		t.Errorf("answered %d %q", got.Status, got.Body)
	}
}

func TestWorkerPanic(t *testing.T) {
	w := NewWorker(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") }), quiet())
	payload, _ := awsevent.FormatRequest(&routing.Request{Method: "GET", Path: "/"})
	if got := invoke(t, w, string(payload)); got.Status != 500 || strings.Contains(string(got.Body), "secret") {
		t.Errorf("answered %d %q", got.Status, got.Body)
	}
}

// TestWorkerAnswerTooLarge: Lambda would take it for a crash.
func TestWorkerAnswerTooLarge(t *testing.T) {
	for name, body := range map[string][]byte{
		"text": bytes.Repeat([]byte("x"), routing.MaxBody+1), "bytes, larger in base64": bytes.Repeat([]byte{0xff}, routing.MaxBody*4/5),
	} {
		w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), quiet())
		payload, err := awsevent.FormatRequest(&routing.Request{Method: "GET", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if got := invoke(t, w, string(payload)); got.Status != 500 || !strings.Contains(string(got.Body), routing.TypeAnswerTooLarge) {
			t.Errorf("%s: answered %d with %d bytes", name, got.Status, len(got.Body))
		}
	}
}

func TestWorkerRefusesOtherEvents(t *testing.T) {
	w := NewWorker(http.NotFoundHandler(), quiet())
	for _, payload := range []string{`{}`, `null`, `{`, `{"Records":[]}`, `{"Records":5}`} {
		if answer, err := w.Invoke(t.Context(), []byte(payload)); err == nil {
			t.Errorf("%s is answered with %s", payload, answer)
		}
	}
}

func message(t *testing.T, tenant, path string) string {
	t.Helper()
	job := routing.NewJob(routing.Call{Tenant: tenant, Epoch: 4, Shard: "s01"},
		&routing.Request{Method: "POST", Path: path, Body: []byte("work"), Header: http.Header{"Content-Type": {"text/plain"}}})
	job.ID = "j" + strings.ReplaceAll(path, "/", "-")
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWorkerReportsTheJobsThatFailed(t *testing.T) {
	var done []string
	w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/panic":
			panic("job")
		default:
			done = append(done, fmt.Sprintf("%s %s %s %s %s", r.Header.Get("Cellwall-Tenant"), r.Header.Get("Cellwall-Epoch"), r.Header.Get("Cellwall-Shard"), r.URL.Path, body))
			w.WriteHeader(http.StatusNoContent)
		}
	}), quiet())
	batch := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "m1", EventSource: "aws:sqs", Body: message(t, "acme", "/one")},
		{MessageId: "m2", EventSource: "aws:sqs", Body: message(t, "acme", "/bad")},
		{MessageId: "m3", EventSource: "aws:sqs", Body: "not a job"},
		{MessageId: "m4", EventSource: "aws:sqs", Body: message(t, "acme", "/panic")},
		{MessageId: "m5", EventSource: "aws:sqs", Body: message(t, "ä", "/two")},
	}}
	payload, err := json.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"batchItemFailures":[{"itemIdentifier":"m2"},{"itemIdentifier":"m3"},{"itemIdentifier":"m4"}]}`; string(answer) != want {
		t.Errorf("answered %s, want %s", answer, want)
	}
	if want := []string{"acme 4 s01 /one work", "%C3%A4 4 s01 /two work"}; !cmp.Equal(done, want) {
		t.Errorf("done %q, want %q", done, want)
	}

	// What there is no time left for is delivered again.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done = nil
	answer, err = w.Invoke(ctx, payload)
	if err != nil || strings.Count(string(answer), "itemIdentifier") != 5 || len(done) > 0 {
		t.Errorf("out of time: answered %s, %v, did %q", answer, err, done)
	}

	batch.Records = batch.Records[:1]
	payload, _ = json.Marshal(batch)
	if answer, _ := w.Invoke(t.Context(), payload); string(answer) != `{"batchItemFailures":[]}` {
		t.Errorf("a batch that went well is answered with %s", answer)
	}
}

// batchOf is an event of one job for each path, whose messages are named m1, m2, ….
func batchOf(t *testing.T, paths ...string) []byte {
	t.Helper()
	var batch events.SQSEvent
	for i, path := range paths {
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: fmt.Sprint("m", i+1), Body: message(t, "acme", path)})
	}
	payload, err := json.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func failures(ids ...string) string {
	for i, id := range ids {
		ids[i] = fmt.Sprintf(`{"itemIdentifier":%q}`, id)
	}
	return `{"batchItemFailures":[` + strings.Join(ids, ",") + `]}`
}

// TestWorkerReportsBeforeLambdaGivesUp: what is done is not delivered again because the rest took long.
func TestWorkerReportsBeforeLambdaGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := 0
		w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			took := time.Millisecond
			if r.URL.Path == "/long" {
				took = 9 * time.Second
			}
			select {
			case <-time.After(took):
				done++
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}), quiet())
		for limit, want := range map[time.Duration]string{
			20 * time.Second:       failures("m4", "m5"), // 0.001, 9.001, 18.001, and the third long one is cut off
			time.Minute:            failures(),
			2 * time.Second:        failures("m2", "m3", "m4", "m5"),
			100 * time.Millisecond: failures("m2", "m3", "m4", "m5"), // a short time has a short margin
		} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			answer, err := w.Invoke(ctx, batchOf(t, "/a", "/long", "/long", "/long", "/b"))
			if err != nil || string(answer) != want {
				t.Errorf("in %v: answered %s, %v; want %s", limit, answer, err, want)
			}
			// By the bubble's clock.
			if deadline, _ := ctx.Deadline(); time.Until(deadline) < min(batchMargin, limit/batchMarginPart) {
				t.Errorf("in %v: answered %v before Lambda gives up", limit, time.Until(deadline))
			}
			cancel()
		}
	})
}

// TestWorkerDropsWhatIsRefusedForGood: a job that the service refuses would be refused again.
func TestWorkerDropsWhatIsRefusedForGood(t *testing.T) {
	var log bytes.Buffer
	w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}), slog.New(slog.NewTextHandler(&log, nil)))
	answer, err := w.Invoke(t.Context(), batchOf(t, "/400", "/404", "/413", "/422", "/499", "/500", "/503", "/304", "/408", "/421", "/425", "/429"))
	if want := failures("m6", "m7", "m8", "m9", "m10", "m11", "m12"); err != nil || string(answer) != want {
		t.Errorf("answered %s, %v; want %s", answer, err, want)
	}
	if n := strings.Count(log.String(), "job refused for good"); n != 5 || !strings.Contains(log.String(), "path=/422") {
		t.Errorf("%d refusals are logged:\n%s", n, &log)
	}
}

// TestWorkerTicks: a schedule's event reaches the service as a tick, by either way, and an error is the function's, so
// that Lambda invokes again.
func TestWorkerTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().UTC() // a midnight
		var asked []string
		status := http.StatusNoContent
		w := NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Cellwall-Tick"), r.Header.Get("Cellwall-Shard"), r.Header.Get("Cellwall-Due")}, " "))
			w.WriteHeader(status)
		}), quiet())
		time.Sleep(20 * time.Second) // a schedule fires somewhat late
		event := fmt.Appendf(nil, `{"tick":{"name":"sweep","shard":"s01","every":900,"offset":0,"time":%q}}`, time.Now().UTC().Format(time.RFC3339))
		answer, err := w.Answer(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(answer); string(body) != "null" {
			t.Errorf("answered %q", body)
		}
		status = http.StatusServiceUnavailable
		if _, err := w.Invoke(t.Context(), event); err == nil {
			t.Error("a failed tick is no error")
		}
		want := "POST /cellwall/tick sweep s01 " + due.Format(time.RFC3339)
		if diff := cmp.Diff([]string{want, want}, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		bad := bytes.Replace(event, []byte("900"), []byte("901"), 1)
		if _, err := w.Answer(t.Context(), bad); err == nil || len(asked) != 2 {
			t.Errorf("no tick: %v, asked %d times", err, len(asked))
		}
	})
}
