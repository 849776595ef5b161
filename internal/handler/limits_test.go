package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/adapter/shardlambda"
	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// engineOver is an engine that serves acme by two shards over one transport.
func engineOver(t *testing.T, transport routing.Transport) *routing.Engine {
	t.Helper()
	dir := directorytest.Fill(t, directory.NewMemory())
	if _, err := dir.Store("test").Create(t.Context(), directory.Entry{Tenant: "acme", Cell: "eu-1", State: directory.Active, Topology: 1,
		Operation: "test", Pins: []string{"s01", "s02"}}); err != nil {
		t.Fatal(err)
	}
	entries, err := dircache.New(dircache.Config{Cell: "eu-1", Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := routing.New(routing.Config{
		Cell: "eu-1", Entries: entries, Topologies: dir, Keys: func(context.Context, string, string) ([]byte, error) { return []byte("test key"), nil },
		Routes:     []routing.Route{{Path: "/*", Via: routing.ViaLambda}},
		Transports: map[string]routing.Transport{routing.ViaLambda: transport},
		Timeout:    28 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// lambdaAPI is Lambda's API: it invokes a worker in this process, and counts.
type lambdaAPI struct {
	worker      *Worker
	invocations atomic.Int32
}

func (s *lambdaAPI) Invoke(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	s.invocations.Add(1)
	answer, err := s.worker.Invoke(ctx, in.Payload)
	return &lambda.InvokeOutput{StatusCode: 200, Payload: answer}, err
}

func (s *lambdaAPI) InvokeWithResponseStream(context.Context, *lambda.InvokeWithResponseStreamInput, ...func(*lambda.Options)) (*lambda.InvokeWithResponseStreamOutput, error) {
	panic("nobody asks for a stream")
}

// TestSizes: about 4.5 MB of binary go through whole; more is refused with 413 before anything is invoked; an answer
// that the sender does not take becomes a problem document, and was asked for once.
func TestSizes(t *testing.T) {
	api := &lambdaAPI{worker: NewWorker(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if size := r.URL.Query().Get("answer"); size != "" {
			var n int
			if err := json.Unmarshal([]byte(size), &n); err != nil {
				t.Error(err)
			}
			body = make([]byte, n)
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(body)
	}), quiet())}
	g := NewGateway(GatewayConfig{Router: engineOver(t, shardlambda.New(api, func(shard string) string { return shard })), Identity: anybody{}, Log: quiet()})
	const mb = 1 << 20
	for _, test := range []struct {
		name         string
		sent, answer int // bytes of binary; an answer of 0 is what was sent
		status       map[string]int
		invocations  int32
	}{
		{"4.4 MB there and back", 44 * mb / 10, 0, map[string]int{everybody: 200, alb: 502}, 1},
		{"4.6 MB there", 46 * mb / 10, 0, map[string]int{everybody: 413}, 0},
		{"0.7 MB back", 0, 7 * mb / 10, map[string]int{everybody: 200}, 1},
		{"0.8 MB back", 0, 8 * mb / 10, map[string]int{everybody: 200, alb: 502, albMulti: 502}, 1},
		{"4.6 MB back", 0, 46 * mb / 10, map[string]int{everybody: 500}, 1}, // the slice itself cannot answer
	} {
		for _, sender := range awseventtest.Senders() {
			if max(test.sent, test.answer) > mb && sender.Name != httpAPI && sender.Name != alb {
				continue // the others have these limits, too, and tests of them in package awsevent
			}
			client := awseventtest.Client{Method: "PUT", Path: "/", Body: make([]byte, test.sent), Header: [][2]string{{"Content-Type", "application/octet-stream"}}}
			if test.answer > 0 {
				text, _ := json.Marshal(test.answer) // a number always encodes
				client.Query = "answer=" + string(text)
			}
			api.invocations.Store(0)
			payload, err := g.Invoke(t.Context(), sender.Event(client))
			if err != nil {
				t.Fatal(err)
			}
			got, err := sender.Answer("PUT", payload)
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, sender.Name, err)
				continue
			}
			want := test.status[everybody]
			if special, ok := test.status[sender.Name]; ok {
				want = special
			}
			if got.Status != want || api.invocations.Load() != test.invocations {
				t.Errorf("%s, %s: answered %d after %d invocations, want %d after %d", test.name, sender.Name, got.Status, api.invocations.Load(), want, test.invocations)
			}
			if got.Status == 200 && len(got.Body) != max(test.sent, test.answer) {
				t.Errorf("%s, %s: %d bytes come back", test.name, sender.Name, len(got.Body))
			}
			if got.Status != 200 && got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %s: %d is %s", test.name, sender.Name, got.Status, got.Header.Get("Content-Type"))
			}
			if got.Status >= 500 && !strings.Contains(string(got.Body), routing.TypeAnswerTooLarge) {
				t.Errorf("%s, %s: %s", test.name, sender.Name, got.Body)
			}
		}
	}
}

// TestRefusalsInTheSendersShape: whatever cannot be served is answered as the sender wants it, and names no internals.
func TestRefusalsInTheSendersShape(t *testing.T) {
	panics := NewGateway(GatewayConfig{Identity: anybody{}, Log: quiet(), Router: served(func(context.Context, string, *routing.Request) *routing.Response {
		panic("shard s01 of eu-1")
	})})
	for _, sender := range awseventtest.Senders() {
		good := sender.Event(awseventtest.Client{Method: "GET", Path: "/"})
		for name, test := range map[string]struct {
			g       *Gateway
			payload []byte
			status  int
		}{
			"panic":    {panics, good, 500},
			"nobody":   {gateway(served(echo)), good, 401},
			"bad path": {gateway(served(echo)), sender.Event(awseventtest.Client{Method: "OPTIONS", Path: "*"}), 400},
			"bad body": {gateway(served(echo)), []byte(strings.Replace(string(good), `"isBase64Encoded":false`, `"isBase64Encoded":true,"body":"!"`, 1)), 400},
		} {
			payload, err := test.g.Invoke(t.Context(), test.payload)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sender.Answer("GET", payload)
			if err != nil || got.Status != test.status || got.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(string(got.Body), "s01") {
				t.Errorf("%s, %s: %d %s, %v; want %d", name, sender.Name, got.Status, got.Body, err, test.status)
			}
		}
	}
}

// TestRequestIDs: a request is known by the client's id, or else by the sender's, also where it is refused; the local
// router, which has no sender, makes one up, for the log and the client.
func TestRequestIDs(t *testing.T) {
	for given, want := range map[string]string{"r-1": "r-1", "": "sender's", "no id": "sender's"} {
		for _, sender := range awseventtest.Senders() {
			client := awseventtest.Client{Method: "GET", Path: "/"}
			if given != "" {
				client.Header = [][2]string{{"X-Request-Id", given}}
			}
			e, err := awsevent.Parse(sender.Event(client))
			if err != nil {
				t.Fatal(err)
			}
			id := want
			if want == "sender's" {
				id = e.RequestID
			}
			var routed string
			router := served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
				routed = req.Header.Get(routing.HeaderRequestID)
				return &routing.Response{Status: 200}
			})
			for _, g := range []*Gateway{gateway(router), NewGateway(GatewayConfig{Identity: anybody{}, Log: quiet(), Router: router})} {
				payload, err := g.Invoke(t.Context(), sender.Event(client))
				if err != nil {
					t.Fatal(err)
				}
				got, err := sender.Answer("GET", payload)
				if err != nil || got.Status == 401 && got.Header.Get(routing.HeaderRequestID) != id {
					t.Errorf("%s, %q: %d with id %q, %v; want %q", sender.Name, given, got.Status, got.Header.Get(routing.HeaderRequestID), err, id)
				}
			}
			if routed == "" || routed != id {
				t.Errorf("%s, %q: routed as %q, want %q", sender.Name, given, routed, id)
			}
		}
	}
	var log bytes.Buffer
	server := httptest.NewServer(NewHTTP(HTTPConfig{Router: served(echo), Identity: identity.NewVerified(tokens{}), Log: slog.New(slog.NewTextHandler(&log, nil))}))
	defer server.Close()
	made := map[string]bool{}
	for _, given := range []string{"r-1", "no id", ""} {
		status, header, _ := ask(t, "GET", server.URL, nil, "X-Request-Id", given)
		id := header.Get("X-Request-Id")
		if status != 401 || routing.RequestID(header) == "" || given == "r-1" && id != given || made[id] {
			t.Errorf("%q: %d with id %q", given, status, id)
		}
		made[id] = true
	}
	server.Close() // nothing is logged from here on
	for id := range made {
		if !strings.Contains(log.String(), "requestId="+id) {
			t.Errorf("the log does not tell of %q: %s", id, &log)
		}
	}
}
