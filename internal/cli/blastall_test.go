package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The founding numbers, as the command prints them.
func TestBlastStory(t *testing.T) {
	status, out, errw := command("", "blast", "story")
	for _, want := range []string{
		"any machine for any customer", "25.00 %   0.00 %   75.00 %", "3.57 %    42.86 %  53.57 %", "16.67 of 2,000",
		"0.00 % (0.00 of 23)     43.48 % (10.00 of 23)   56.52 % (13.00 of 23)", "3.57 % (0.82 of 23)", "customer-24 0 7",
	} {
		// Columns are as wide as the widest.
		if status != ExitDone || !strings.Contains(squeezed(out), squeezed(want)) {
			t.Errorf("status %d, %q is missing:\n%s%s", status, want, out, errw)
		}
	}
	status, out, _ = command("", "blast", "story", "workers", "--json")
	var s told
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != ExitDone || len(s.Pins) != 24 || s.Name != "workers" {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
	if status, out, errw = command("", "blast", "story", "bees"); status != ExitUsage || out != "" || !strings.Contains(errw, `no story "bees"`) {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestBlastExact(t *testing.T) {
	exact := func(args ...string) exactReport {
		t.Helper()
		status, out, errw := command("", slices.Concat([]string{"blast", "exact", "--json"}, args)...)
		var r exactReport
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitDone {
			t.Fatalf("%q: status %d, %v: %s", args, status, err, errw)
		}
		return r
	}
	// Route 53's: 730,862,190,080 subsets; bounded/v1 places 2^27 tenants with its promise.
	r := exact("--shards", "2048", "--per-tenant", "4", "--max-shared", "2")
	if r.Subsets.String() != "730862190080" || r.Room.Bounded.String() != "134217728" || r.Room.Field != 512 {
		t.Errorf("%+v", r)
	}
	status, out, _ := command("", "blast", "exact", "--shards", "64", "--per-tenant", "8", "--fanout", "50", "--zone-shards", "32,32")
	for _, want := range []string{"2.2593e-10", "4.8867e-04", "35.935 %", "is slow 39.499 % of the time", "all shards of a tenant are in one zone"} {
		if status != ExitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is missing:\n%s", status, want, out)
		}
	}
	if r = exact("--shards", "24", "--per-tenant", "2", "--zone-shards", "8,8,8"); *r.OneZone < 0.3043 || *r.OneZone > 0.3044 {
		t.Errorf("24 shards in 3 zones, without a rule: %v", *r.OneZone)
	}
	if r = exact("--shards", "24", "--per-tenant", "2", "--zone-shards", "8,8,8", "--spread"); *r.OneZone != 0 {
		t.Errorf("with the rule: %v", *r.OneZone)
	}
	if r = exact("--shards", "2000", "--per-tenant", "1000"); len(r.Covered) != 0 || r.Birthday != nil {
		t.Errorf("%+v", r)
	}
	if r = exact("--shards", "16", "--per-tenant", "2", "--tenants", "14"); *r.Identical < 0.5 || *r.Birthday != 14 {
		t.Errorf("%+v", r)
	}
}

// Spread over zones there are fewer subsets than of any k shards, and all figures are of those.
func TestBlastExactSpread(t *testing.T) {
	status, out, errw := command("", "blast", "exact", "--shards", "12", "--per-tenant", "3", "--zone-shards", "4,4,4", "--spread", "--tenants", "10", "--json")
	var r exactReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitDone {
		t.Fatalf("status %d, %v: %s", status, err, errw)
	}
	if r.Subsets.Int64() != 64 || !r.Spread || !r.Even || r.Same != 1.0/64 || *r.Birthday != 10 || *r.Identical < 0.5 || r.Covered[0].Chance != 1.0/64 || r.MeanOverlap != 0.75 || *r.OneZone != 0 {
		t.Errorf("%+v", r)
	}
	_, out, _ = command("", "blast", "exact", "--shards", "16", "--per-tenant", "2", "--zone-shards", "6,5,5", "--spread")
	for _, want := range []string{"spread over zones of 6, 5, 5 shards; 85 different subsets", "From about 12 tenants on"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

func TestBlastExactRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--shards must be given"},
		{[]string{"--shards", "0", "--per-tenant", "1"}, "number of shards out of range"},
		{[]string{"--shards", "8", "--per-tenant", "9"}, "outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--failed-count", "9"}, "--failed-count: outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--misbehaving", "-1"}, "--misbehaving: outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--tenants", "-1"}, "--tenants: outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--max-shared", "2"}, "--max-shared: outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--zone-shards", "4,3"}, "--zone-shards has 7, and --shards is 8"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--spread"}, "--spread is over zones, and there are none"},
		{[]string{"--shards", "5", "--per-tenant", "2", "--fanout", "6"}, "--fanout is 6, and there are 5 shards"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--fanout", "0"}, "--fanout: outside the model"},
		{[]string{"--shards", "8", "--per-tenant", "2", "--fanout", "2", "--slow", "2"}, "--fanout: outside the model"},
	} {
		status, out, errw := command("", slices.Concat([]string{"blast", "exact"}, c.args)...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, "error: "+c.want) {
			t.Errorf("%q: status %d, %q, %q; want %q", c.args, status, out, errw, c.want)
		}
	}
}

func TestBlastFailures(t *testing.T) {
	args := []string{"blast", "--scheme", "rendezvous/v1", "--shards", "16", "--per-tenant", "2", "--key-hex", "6b", "--tenants-file", "-"}
	tenants := "tenant,load\n" + strings.ReplaceAll(recipeTenants(400), "\n", ",2\n")
	status, out, errw := command(tenants, append(args, "--failures", "2", "--by-load", "--json")...)
	var r struct {
		Tenants int
		Load    float64
		planFailures
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitDone {
		t.Fatalf("status %d, %v: %s", status, err, errw)
	}
	if r.Tenants != 400 || r.Load != 800 || r.Sets != 120 || r.Degraded.Load.Worst != 2*r.Degraded.Tenants.Worst || len(r.Degraded.Tenants.WorstShards) != 2 {
		t.Errorf("%+v", r)
	}
	// The worst of all, failed by itself, does what was said.
	status, out, errw = command(tenants, append(args, "--failed", strings.Join(r.Degraded.Tenants.WorstShards, ","), "--by-load", "--json")...)
	var one struct {
		Degraded int
		Losses   []blastLoss
	}
	if err := json.Unmarshal([]byte(out), &one); err != nil || status != ExitDone || float64(one.Degraded) != r.Degraded.Tenants.Worst || len(one.Losses) != 3 {
		t.Errorf("status %d, %v: %s%s, want %v degraded", status, err, out, errw, r.Degraded.Tenants.Worst)
	}
	status, out, errw = command(tenants, append(args, "--failures", "8", "--sampled", "500")...)
	if status != ExitDone || !strings.Contains(out, "8 (all 12,870)") { // which is feasible, so that nothing is drawn
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--failures", "0"}, "error: --failures: "},
		{[]string{"--failures", "17"}, "error: --failures: "},
		{[]string{"--failures", "2", "--failed", "3"}, "error: --failed is one failure"},
		{[]string{"--failed", "3", "--sampled", "9"}, "error: --sampled is for --failures"},
		{[]string{"--failures", "6", "--shards", "200"}, "hint: draw some of them with --sampled"},
		{[]string{"--failures", "6", "--shards", "200", "--sampled", "-1"}, "error: --sampled is -1"},
		{[]string{"--failures", "1", "--sampled", "-3"}, "error: --sampled is -3"},
	} {
		status, out, errw := command(tenants, slices.Concat(args, c.args)...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, c.want) {
			t.Errorf("%q: status %d, %q, %q; want %q", c.args, status, out, errw, c.want)
		}
	}
	status, out, errw = command("acme\n", append(args, "--failed", "3", "--by-load")...)
	if status != ExitUsage || out != "" || !strings.Contains(errw, "the tenants have no loads") {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
}

func TestBlastSampled(t *testing.T) {
	args := []string{"blast", "--scheme", "rendezvous/v1", "--shards", "200", "--per-tenant", "3", "--key-hex", "6b", "--tenants-file", "-", "--failures", "6", "--sampled", "500"}
	status, out, errw := command(recipeTenants(1000), args...)
	for _, want := range []string{"6 (500 of 82,408,626,300 drawn)", "means are exact; with 99.00 % confidence each", "for certain none degrades more than"} {
		if status != ExitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is missing:\n%s%s", status, want, out, errw)
		}
	}
	if _, again, _ := command(recipeTenants(1000), args...); again != out {
		t.Error("the same command draws other failures")
	}
}
