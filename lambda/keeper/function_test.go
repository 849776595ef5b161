package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/internal/telemetry"
)

const routerLogs = "/cellwall/orders/eu-1/router"

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// kept is a keeper that counts.
type kept struct {
	last   *snapshot.Snapshot
	down   error
	wrote  int
	forced int
}

func (k *kept) Last(context.Context) (*snapshot.Snapshot, error) { return k.last, k.down }

func (k *kept) Measure(context.Context, keeper.Outcome) (keeper.Measures, error) {
	age := 7.0
	return keeper.Measures{DirectoryAge: &age}, k.down
}

func (k *kept) Write(_ context.Context, o keeper.Options) (keeper.Outcome, error) {
	k.wrote++
	if o.Force {
		k.forced++
	}
	return keeper.Outcome{}, k.down
}

// stage is the function over a directory in memory with the tenant acme in eu-1.
type stage struct {
	*function
	t      *testing.T
	dir    *directory.Residence
	keeper *kept
	out    bytes.Buffer
}

func newStage(t *testing.T, hashed bool) *stage {
	t.Helper()
	s := &stage{t: t, keeper: &kept{}}
	d := directorytest.Fill(t, directory.NewMemory())
	s.dir = directory.NewResidence(d, directory.NewMemoryHolder(), func(context.Context, string, string) ([]byte, error) {
		return []byte("a placement key of 32 bytes here"), nil
	})
	change := func(op string) directory.Change { return directory.Change{Operation: op, By: "ann", At: now} }
	if _, err := d.CloseCell(t.Context(), "us-1", change("close")); err != nil {
		t.Fatal(err)
	}
	e, err := s.dir.SignUp(t.Context(), directory.SignUp{Tenant: "acme"}, change("add"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := snapshot.Pack("eu-1", []directory.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	s.keeper.last = &snapshot.Snapshot{Cell: "eu-1", Entries: entries}
	q, err := quarantine.New(quarantine.Config{Cell: "eu-1", Shards: []string{"s07", "s08"}, Residence: s.dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s.function = &function{
		writer:  writer{s.keeper, slog.New(slog.DiscardHandler), telemetry.New(telemetry.Config{Service: "orders", Cell: "eu-1", HashTenants: hashed, Metrics: true, Out: &s.out, Now: func() time.Time { return now }})},
		service: "orders", cell: "eu-1", quarantine: q, routerLogs: routerLogs, hashed: hashed,
	}
	return s
}

// says is the event of a log stream with what the router writes of a verdict, and what else is given.
func (s *stage) says(group, stream string, v poison.Verdict, more ...string) json.RawMessage {
	s.t.Helper()
	var line bytes.Buffer
	telemetry.New(telemetry.Config{Service: "orders", Cell: "eu-1", HashTenants: s.hashed, Metrics: true, Out: &line, Now: func() time.Time { return now }}).Verdict(v)
	batch := events.CloudwatchLogsData{MessageType: "DATA_MESSAGE", LogGroup: group, LogStream: stream}
	for _, text := range append(more, line.String()) {
		batch.LogEvents = append(batch.LogEvents, events.CloudwatchLogsLogEvent{ID: "1", Timestamp: now.UnixMilli(), Message: text})
	}
	text, err := json.Marshal(batch)
	if err != nil {
		s.t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		s.t.Fatal(err)
	}
	payload, err := json.Marshal(events.CloudwatchLogsEvent{AWSLogs: events.CloudwatchLogsRawData{Data: base64.StdEncoding.EncodeToString(packed.Bytes())}})
	if err != nil {
		s.t.Fatal(err)
	}
	return payload
}

func first(tenant string) poison.Verdict {
	return poison.Verdict{Tenant: tenant, Shards: []string{"s01", "s02"}, Downs: 1, Chance: 4e-3, Until: now.Add(time.Minute)}
}

// TestHears: three environments say it, and the tenant is pinned, also where the router's log has hashes alone.
func TestHears(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		s := newStage(t, hashed)
		for i, stream := range []string{"a", "b", "b", "c"} {
			if e, err := s.dir.Get(t.Context(), "acme"); err != nil || len(e.Pins) > 0 {
				t.Fatalf("hashed %t: after %d events pinned to %v, %v", hashed, i, e.Pins, err)
			}
			if err := s.invoke(t.Context(), s.says(routerLogs, stream, first("acme"), "no verdict", `{"msg":"request"}`)); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.dir.Get(t.Context(), "acme")
		if err != nil || strings.Join(e.Pins, " ") != "s07 s08" {
			t.Errorf("hashed %t: pinned to %v, %v", hashed, e.Pins, err)
		}
		if out := s.out.String(); strings.Contains(out, "acme") == hashed || !strings.Contains(out, `"what":"pinned"`) || !strings.Contains(out, `"Quarantined":1`) {
			t.Errorf("hashed %t: told %s", hashed, out)
		}
		if s.keeper.wrote > 0 {
			t.Error("an event of a log has a snapshot written")
		}
	}
}

func TestHearsNobody(t *testing.T) {
	s := newStage(t, false)
	firm := first("acme")
	firm.Firm = true
	if err := s.invoke(t.Context(), s.says("/another/group", "a", firm)); err == nil || !strings.Contains(err.Error(), "/another/group") {
		t.Errorf("another group's lines: %v", err)
	}
	if err := s.invoke(t.Context(), json.RawMessage(`{"awslogs":{"data":"aGVsbG8="}}`)); err == nil {
		t.Error("a malformed event is taken")
	}
	stranger := first("stranger")
	stranger.Firm = true
	if err := s.invoke(t.Context(), s.says(routerLogs, "a", stranger)); err != nil || !strings.Contains(s.out.String(), `"what":"unknown"`) {
		t.Errorf("%v: %s", err, &s.out)
	}
	h := newStage(t, true)
	if err := h.invoke(t.Context(), h.says(routerLogs, "a", stranger)); err != nil || h.out.Len() > 0 {
		t.Errorf("a hash that nobody has: %v, %s", err, &h.out)
	}
	h.keeper.down = errors.New("the bucket does not answer")
	if err := h.invoke(t.Context(), h.says(routerLogs, "a", firm)); !errors.Is(err, h.keeper.down) {
		t.Errorf("%v", err)
	}
	for _, s := range []*stage{s, h} {
		if e, err := s.dir.Get(t.Context(), "acme"); err != nil || len(e.Pins) > 0 {
			t.Errorf("pinned to %v, %v", e.Pins, err)
		}
	}
}

// TestScheduled: the schedule's event, and an operator's, write a snapshot, and tell of the quarantine.
func TestScheduled(t *testing.T) {
	s := newStage(t, false)
	for _, event := range []string{`{"detail-type":"Scheduled Event","source":"aws.events"}`, `{"force":true}`} {
		if err := s.invoke(t.Context(), json.RawMessage(event)); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(s.out.String(), `"DirectoryAge":7`) != 2 {
		t.Errorf("not measured: %s", &s.out)
	}
	if s.keeper.wrote != 2 || s.keeper.forced != 1 || strings.Count(s.out.String(), `"Quarantined":0`) != 2 {
		t.Errorf("%d written, %d by force; %s", s.keeper.wrote, s.keeper.forced, &s.out)
	}
	s.keeper.down = errors.New("the bucket does not answer")
	if err := s.invoke(t.Context(), json.RawMessage(`{}`)); !errors.Is(err, s.keeper.down) {
		t.Errorf("%v", err)
	}
	if strings.Count(s.out.String(), `"DirectoryAge":7`) != 3 {
		t.Errorf("a run that fails is not measured: %s", &s.out)
	}
	if err := s.invoke(t.Context(), json.RawMessage(`[]`)); err == nil {
		t.Error("a list is taken for an event")
	}
}

// TestFrontDoorsKeeper: it writes, whether the schedule or an operator asks, and says what was amiss.
func TestFrontDoorsKeeper(t *testing.T) {
	k := &kept{}
	var out bytes.Buffer
	w := writer{k, slog.New(slog.DiscardHandler), telemetry.New(telemetry.Config{Service: "orders", Cell: names.FrontDoorCell, Metrics: true, Out: &out})}
	for _, event := range []string{`{}`, `{"force":true}`} {
		if err := w.invoke(t.Context(), json.RawMessage(event)); err != nil {
			t.Error(err)
		}
	}
	if k.wrote != 2 || k.forced != 1 {
		t.Errorf("%d written, %d by force", k.wrote, k.forced)
	}
	k.down = errors.New("does not answer")
	if err := w.invoke(t.Context(), json.RawMessage(`{}`)); !errors.Is(err, k.down) {
		t.Errorf("%v", err)
	}
	if strings.Count(out.String(), `"cell":"frontdoor","DirectoryAge":7`) != 3 {
		t.Errorf("not each run is measured, or not as a front door's: %s", &out)
	}
	if err := w.invoke(t.Context(), json.RawMessage(`[]`)); err == nil || errors.Is(err, k.down) {
		t.Errorf("a list is taken for an event: %v", err)
	}
}
