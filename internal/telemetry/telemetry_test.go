package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/poison"
)

func clock() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 123e6, time.UTC) }

// lines observes outcomes and reads what was written.
func lines(t *testing.T, c Config, outcomes ...routing.Outcome) (read []map[string]any, text string) {
	t.Helper()
	var out bytes.Buffer
	c.Service, c.Cell, c.Out, c.Now = "orders", "eu-1", &out, clock
	r := New(c)
	for _, o := range outcomes {
		r.Observe(o)
	}
	for l := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%v in %q", err, l)
		}
		read = append(read, m)
	}
	return read, out.String()
}

var failover = routing.Outcome{
	RequestID: "r1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Tenant: "acme", Method: "GET", Route: "/*", Status: 200, Fallbacks: 1,
	Took: 12_345 * time.Microsecond, Age: 30 * time.Second,
	Attempts: []routing.Attempt{{Shard: "s03", Err: errors.New("connection refused"), Took: 2 * time.Millisecond}, {Shard: "s07", Status: 200, Took: 10 * time.Millisecond}},
}

// TestLineGolden: the very text is what queries, dashboards and metric filters are written for.
func TestLineGolden(t *testing.T) {
	_, text := lines(t, Config{Metrics: true}, failover,
		routing.Outcome{RequestID: "r2", Method: "POST", Status: 401, Err: errors.New("a verified token is needed")})
	const file = "testdata/lines.jsonl"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("UPDATE=1 go test ./internal/telemetry, if it is meant to:\n%s", text)
	}
}

func TestOneLine(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		o := drawn(random)
		for _, metrics := range []bool{true, false} {
			got, text := lines(t, Config{Metrics: metrics}, o)
			want := 1
			if metrics {
				want = max(1, len(o.Attempts))
			}
			if len(got) != want || strings.Count(text, "\n") != want {
				t.Fatalf("%+v gives %d lines:\n%s", o, len(got), text)
			}
			if got[0]["msg"] != "request" || got[0]["cell"] != "eu-1" || int(got[0]["status"].(float64)) != o.Status {
				t.Fatalf("%+v gives %s", o, text)
			}
			if _, has := got[0]["_aws"]; has != metrics {
				t.Fatalf("metrics %t: %s", metrics, text)
			}
			for _, l := range got {
				complete(t, l)
			}
		}
	}
}

// complete sees that what a line's metadata names is there: CloudWatch drops a line that lacks a dimension.
func complete(t *testing.T, l map[string]any) {
	t.Helper()
	aws, ok := l["_aws"].(map[string]any)
	if !ok {
		return
	}
	if int64(aws["Timestamp"].(float64)) != clock().UnixMilli() {
		t.Fatalf("timestamp of %v", l)
	}
	for _, d := range aws["CloudWatchMetrics"].([]any) {
		d := d.(map[string]any)
		for _, set := range d["Dimensions"].([]any) {
			for _, name := range set.([]any) {
				if v, ok := l[name.(string)].(string); !ok || v == "" {
					t.Fatalf("dimension %v is missing in %v", name, l)
				}
			}
		}
		for _, m := range d["Metrics"].([]any) {
			if _, ok := l[m.(map[string]any)["Name"].(string)].(float64); !ok {
				t.Fatalf("metric %v is missing in %v", m, l)
			}
		}
	}
}

func TestCounted(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	want := map[string][2]int{}
	var all []routing.Outcome
	for range 300 {
		o := drawn(random)
		for _, a := range o.Attempts {
			sums := want[a.Shard]
			sums[0]++
			if !a.Left && (a.Err != nil || a.Status >= 500 || a.Status == 421) {
				sums[1]++
			}
			want[a.Shard] = sums
		}
		all = append(all, o)
	}
	read, _ := lines(t, Config{Metrics: true}, all...)
	got := map[string][2]int{}
	for _, l := range read {
		if _, sent := l["Requests"]; !sent {
			continue
		}
		if shard, ok := l["shard"].(string); ok {
			sums := got[shard]
			sums[0] += int(l["Requests"].(float64))
			sums[1] += int(l["Errors"].(float64))
			got[shard] = sums
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestHidden(t *testing.T) {
	o := failover
	o.Tenant = "a-very-secret-customer"
	read, text := lines(t, Config{Metrics: true, HashTenants: true}, o)
	if strings.Contains(text, o.Tenant) {
		t.Errorf("the tenant shows: %s", text)
	}
	if id, _ := read[0]["tenant"].(string); len(id) != 26 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("tenant is %q", id)
	}
	if read, _ = lines(t, Config{HashTenants: true}, routing.Outcome{Status: 401}); read[0]["tenant"] != nil {
		t.Errorf("nobody is called %v", read[0]["tenant"])
	}
}

// TestHiddenInErrors: the directory's errors name the tenant, as it is, quoted or percent-encoded.
func TestHiddenInErrors(t *testing.T) {
	const tenant = "a very \"secret\"/customer"
	o := failover
	o.Tenant = tenant
	o.Err = fmt.Errorf("look up tenant %q: tenant %q: %w", tenant, tenant, errors.New("not found"))
	o.ReplicaErr, o.HomeErr = fmt.Errorf("%s is missing", tenant), errors.New("at /tenants/"+routing.EncodeTenant(tenant))
	o.Attempts = []routing.Attempt{{Shard: "s03", Err: fmt.Errorf("function failed for %s.", tenant)}}
	read, text := lines(t, Config{HashTenants: true}, o)
	if strings.Contains(text, "secret") {
		t.Errorf("the tenant shows: %s", text)
	}
	if want := fmt.Sprintf(`look up tenant "%s": tenant "%s": not found`, Hash(tenant), Hash(tenant)); read[0]["err"] != want {
		t.Errorf("err is %q, want %q", read[0]["err"], want)
	}
	o.Tenant = "all" // a word of its own alone
	o.Err = errors.New("all of the calls failed, all")
	read, _ = lines(t, Config{HashTenants: true}, o)
	if want := Hash("all") + " of the calls failed, " + Hash("all"); read[0]["err"] != want {
		t.Errorf("err is %q, want %q", read[0]["err"], want)
	}
}

// TestBounded: whatever a client or a slice says, a line is one event of CloudWatch Logs, which takes 256 KB. What
// is cut stays text.
func TestBounded(t *testing.T) {
	o := failover
	long := errors.New(strings.Repeat("ä\x00", 4<<20))
	o.Method, o.Err, o.ReplicaErr, o.HomeErr = strings.Repeat("P", 1<<20), long, long, long
	for range 16 {
		o.Attempts = append(o.Attempts, routing.Attempt{Shard: "s03", Err: long})
	}
	read, text := lines(t, Config{Metrics: true}, o)
	for l := range strings.Lines(text) {
		if len(l) > 256_000 {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	if got, _ := read[0]["err"].(string); !strings.HasPrefix(got, "ä") || strings.Contains(got, "\ufffd") || !strings.HasSuffix(got, "…") {
		t.Errorf("err is %.20q…", got)
	}
}

func TestVerdict(t *testing.T) {
	var out bytes.Buffer
	r := New(Config{Service: "orders", Cell: "eu-1", Metrics: true, Out: &out, Now: clock})
	r.Verdict(poison.Verdict{Tenant: "acme", Shards: []string{"s01", "s02"}, Downs: 4, Chance: 1e-9, Firm: true, Until: clock().Add(time.Minute), Repeats: 1})
	var l map[string]any
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v in %q", err, out.String())
	}
	complete(t, l)
	if l["msg"] != VerdictMessage || l["tenant"] != "acme" || l["firm"] != true || l["until"] != "2026-11-30T12:01:00.123Z" || l["PoisonVerdicts"] != 1.0 {
		t.Errorf("verdict: %s", out.String())
	}
	// The keeper reads what the router writes.
	v, err := quarantine.ParseLine(out.Bytes(), "orders", "eu-1")
	want := poison.Verdict{Tenant: "acme", Shards: []string{"s01", "s02"}, Downs: 4, Chance: 1e-9, Firm: true, Until: clock().Add(time.Minute), Repeats: 1}
	if err != nil || !v.At.Equal(clock()) || !reflect.DeepEqual(v.Verdict, want) {
		t.Errorf("read as %+v, %v", v, err)
	}
}

func TestQuarantine(t *testing.T) {
	var out bytes.Buffer
	r := New(Config{Service: "orders", Cell: "eu-1", HashTenants: true, Metrics: true, Out: &out, Now: clock})
	r.Quarantine(quarantine.Outcome{Suspects: 2, Quarantined: 1, Events: []quarantine.Event{
		{What: quarantine.Suspected, Tenant: "a-very-secret-customer", Shards: []string{"s01"}, Until: clock().Add(time.Minute)},
		{What: quarantine.LeftAlone, Tenant: "a-very-secret-customer", Why: "it is moving"},
	}})
	read := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(read) != 3 || strings.Contains(out.String(), "secret") {
		t.Fatalf("%d lines: %s", len(read), &out)
	}
	var l map[string]any
	if err := json.Unmarshal([]byte(read[0]), &l); err != nil || l["what"] != "suspected" || l["until"] != "2026-11-30T12:01:00.123Z" || l["tenant"] != Hash("a-very-secret-customer") {
		t.Errorf("%s, %v", read[0], err)
	}
	if err := json.Unmarshal([]byte(read[2]), &l); err != nil || l["Quarantined"] != 1.0 || l["Suspects"] != 2.0 {
		t.Errorf("%s, %v", read[2], err)
	}
	complete(t, l)
}

// TestMeasures: what is not known is neither a member of the line nor one of its metrics.
func TestMeasures(t *testing.T) {
	var out bytes.Buffer
	r := New(Config{Service: "orders", Cell: "eu-1", Metrics: true, Out: &out, Now: clock})
	v := func(f float64) *float64 { return &f }
	r.Measures(Measures{DirectoryAge: v(0), KeyAge: v(1.5), LoadVariation: v(42)})
	r.Measures(Measures{})
	const want = `{"_aws":{"Timestamp":1796040000123,"CloudWatchMetrics":[{"Namespace":"cellwall","Dimensions":[["service","cell"]],` +
		`"Metrics":[{"Name":"DirectoryAge","Unit":"Seconds"},{"Name":"KeyAge","Unit":"None"},{"Name":"LoadVariation","Unit":"Percent"}]}]},` +
		`"time":"2026-11-30T12:00:00.123Z","level":"INFO","msg":"measures","service":"orders","cell":"eu-1","DirectoryAge":0,"KeyAge":1.5,"LoadVariation":42}` + "\n"
	if out.String() != want {
		t.Errorf("told %s", &out)
	}
	out.Reset()
	r.Measures(Measures{SnapshotAge: v(1), DirectoryAge: v(2), HealthAge: v(3), KeyAge: v(4), LoadVariation: v(5)})
	var l map[string]any
	if err := json.Unmarshal(out.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	complete(t, l)
}

func TestLevels(t *testing.T) {
	served := routing.Outcome{Status: 200, Attempts: []routing.Attempt{{Shard: "s01", Status: 200}}}
	with := func(change func(*routing.Outcome)) routing.Outcome {
		o := served
		change(&o)
		return o
	}
	left := routing.Outcome{
		Status: 502, Err: context.Canceled, Left: true,
		Attempts: []routing.Attempt{{Shard: "s01", Err: context.Canceled, Left: true}},
	}
	for want, all := range map[string][]routing.Outcome{
		"INFO": {served, with(func(o *routing.Outcome) { o.Status = 404 }), left, {Status: 503, Err: context.Canceled, Left: true}},
		"WARN": {failover, with(func(o *routing.Outcome) { o.Stale = true }), with(func(o *routing.Outcome) { o.HomeErr = io.EOF }),
			with(func(o *routing.Outcome) { o.Poisoned = true }), {Status: 401, Err: io.EOF}},
		"ERROR": {with(func(o *routing.Outcome) { o.Status = 503 }), {Status: 500}},
	} {
		for _, o := range all {
			if got, _ := lines(t, Config{}, o); got[0]["level"] != want {
				t.Errorf("%+v is %v, want %s", o, got[0]["level"], want)
			}
		}
	}
}

// TestLeft: a client that did not wait makes nobody look ill, and its line says so.
func TestLeft(t *testing.T) {
	o := routing.Outcome{
		Status: 502, Err: context.Canceled, Left: true,
		Attempts: []routing.Attempt{{Shard: "s01", Err: io.EOF}, {Shard: "s02", Err: context.Canceled, Left: true}},
	}
	got, text := lines(t, Config{Metrics: true}, o)
	if got[0]["left"] != true || got[0]["Errors"] != 1.0 || got[1]["Errors"] != 0.0 || got[1]["Requests"] != 1.0 {
		t.Errorf("told as %s", text)
	}
	got, text = lines(t, Config{Metrics: true}, routing.Outcome{Status: 503, Err: context.Canceled, Left: true})
	if got[0]["left"] != true || got[0]["Refused"] != 0.0 {
		t.Errorf("told as %s", text)
	}
}

// drawn is any outcome, hostile strings included.
func drawn(r *rand.Rand) routing.Outcome {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	o := routing.Outcome{
		RequestID: pick("", "r1", "\"}\n{"), Tenant: pick("", "acme", "a\nb", "ä\u2028", "\xff"), Method: pick("GET", "P\"T"), Route: pick("", "/*"),
		Status: []int{200, 404, 429, 500, 503}[r.IntN(5)], Took: time.Duration(r.IntN(1e9)), Age: time.Duration(r.IntN(1e12)), Stale: r.IntN(2) == 0, Poisoned: r.IntN(9) == 0,
	}
	for range r.IntN(4) {
		a := routing.Attempt{Shard: pick("s01", "s02"), Took: time.Duration(r.IntN(1e9)), Status: []int{200, 421, 503}[r.IntN(3)]}
		if r.IntN(3) == 0 {
			a.Status, a.Err = 0, errors.New(pick("reset", "line\r\nbreak \x1b[31m"))
			a.Left = r.IntN(3) == 0
		}
		o.Attempts = append(o.Attempts, a)
	}
	if len(o.Attempts) == 0 {
		o.Err = errors.New("refused")
	}
	o.Attempts = slices.Clip(o.Attempts)
	return o
}

func BenchmarkObserve(b *testing.B) {
	r := New(Config{Service: "orders", Cell: "eu-1", Metrics: true, Out: io.Discard})
	o := routing.Outcome{RequestID: "r1", Tenant: "acme", Method: "GET", Route: "/*", Status: 200, Attempts: []routing.Attempt{{Shard: "s01", Status: 200}}}
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(o)
	}
}
