package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/telemetry"
)

// placer is a Placer made of a function.
type placer func(job routing.Job) (routing.Job, error)

func (p placer) Place(_ context.Context, job routing.Job) (routing.Job, error) { return p(job) }

func jobMessage(t *testing.T, id, path string) string {
	t.Helper()
	message, err := routing.Job{ID: id, Tenant: "acme", Epoch: 3, Method: "POST", Path: path, Dispatches: 1}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

// TestDispatching: jobs go where they belong now, those that cannot come again, and requests are served as ever.
func TestDispatching(t *testing.T) {
	var put []string
	d := &Dispatching{
		Gateway: NewGateway(GatewayConfig{Router: served(func(context.Context, string, *routing.Request) *routing.Response {
			return &routing.Response{Status: 204}
		}), Identity: anybody{}, Log: quiet()}),
		Placer: placer(func(job routing.Job) (routing.Job, error) {
			switch job.Path {
			case "/elsewhere":
				return routing.Job{}, routing.ErrElsewhere
			case "/panic":
				panic("placing")
			}
			job.Shard, job.Epoch = "s07", 9
			return job, nil
		}),
		Put: func(_ context.Context, job routing.Job) error {
			if job.Path == "/full" {
				return errors.New("queue does not answer")
			}
			put = append(put, fmt.Sprintf("%s %s@%d", job.ID, job.Shard, job.Epoch))
			return nil
		},
		Log: quiet(),
	}
	var batch events.SQSEvent
	for i, body := range []string{jobMessage(t, "j1", "/a"), jobMessage(t, "j2", "/elsewhere"), "not a job", jobMessage(t, "j3", "/panic"), jobMessage(t, "j4", "/full"), jobMessage(t, "j5", "/b")} {
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: fmt.Sprint("m", i+1), EventSource: "aws:sqs", Body: body})
	}
	payload, err := json.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	if got := dispatched(t, d, t.Context(), payload); got != failures("m2", "m3", "m4", "m5") || strings.Join(put, ", ") != "j1 s07@9, j5 s07@9" {
		t.Errorf("answered %s, put %q", got, put)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := dispatched(t, d, over, payload); got != failures("m1", "m2", "m3", "m4", "m5", "m6") || len(put) != 2 {
		t.Errorf("without time: answered %s, put %q", got, put)
	}
	request := `{"version":"2.0","rawPath":"/","headers":{},"requestContext":{"http":{"method":"GET"}}}`
	if got := dispatched(t, d, t.Context(), []byte(request)); !strings.Contains(got, `"statusCode":204`) {
		t.Errorf("a request is answered %s", got)
	}
}

// TestDispatchingNamesNoTenant: what a directory says of a tenant reaches the log as the fleet wants it.
func TestDispatchingNamesNoTenant(t *testing.T) {
	var log bytes.Buffer
	d := &Dispatching{
		Placer: placer(func(routing.Job) (routing.Job, error) {
			return routing.Job{}, errors.New(`look up tenant "acme": gone`)
		}),
		Log: slog.New(slog.NewTextHandler(&log, nil)), Text: telemetry.New(telemetry.Config{HashTenants: true}).Text,
	}
	d.Gateway = NewGateway(GatewayConfig{Log: d.Log})
	payload, err := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{MessageId: "m1", EventSource: "aws:sqs", Body: jobMessage(t, "j1", "/a")}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := dispatched(t, d, t.Context(), payload); got != failures("m1") || strings.Contains(log.String(), "acme") || !strings.Contains(log.String(), telemetry.Hash("acme")) {
		t.Errorf("answered %s, logged %s", got, &log)
	}
}

func dispatched(t *testing.T, d *Dispatching, ctx context.Context, payload []byte) string {
	t.Helper()
	answer, err := d.Answer(ctx, payload)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
