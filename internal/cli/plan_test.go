package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update", false, "write the expected output in testdata")

// planFleet has a cell for everybody, with a budget that it keeps, and one for internal tenants, with its own.
const planFleet = `service: orders
directory: {account: "111111111111", region: eu-west-1}
accounts: {"111111111111": {lambdaConcurrency: 1000000}}
auth: {issuer: https://login.example.com/, audience: orders}
router: {reservedConcurrency: 400000, attemptTimeout: 1s}
placement: {perTenant: 2, sizes: {whale: {perTenant: 4}}}
budget: {concurrentFailures: 1, degradedTenants: 50%, capacityLoss: 50%, fullyDown: 0%}
shard:
  capacity: 100
  lambda: {asset: dist/worker, reservedConcurrency: 2}
cells:
  - {name: eu-canary, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4, tenants: internal, budget: {degradedTenants: 60%}}
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b, c], shards: 7}
`

// TestPlanChecksTheRouter: shards that hang hold the router's environments, and half of them must be left.
func TestPlanChecksTheRouter(t *testing.T) {
	tight := func(reserved int, timeout string) string {
		return strings.NewReplacer("reservedConcurrency: 400000, attemptTimeout: 1s", fmt.Sprintf("reservedConcurrency: %d, attemptTimeout: %s", reserved, timeout)).Replace(loose)
	}
	args := []string{"--cell", "eu-1"}
	r := planJSON(t, ExitDone, tight(1000, "5s"), planTenants(63), args...).Cells[0]
	most := 0.0
	for _, s := range r.Shards {
		most = max(most, s.Load)
	}
	if r.Router == nil || !r.Router.Kept || r.Router.Rate != most || r.Router.Held != 5*most || len(r.Router.Hang) != 1 {
		t.Fatalf("the fullest shard has %v requests/s: %+v", most, r.Router)
	}
	needed := r.Router.Needed
	for reserved, status := range map[int]int{needed: ExitDone, needed - 1: ExitFound} {
		if got := planJSON(t, status, tight(reserved, "5s"), planTenants(63), args...).Cells[0]; got.Router.Kept != (status == ExitDone) || !got.Kept {
			t.Errorf("%d reserved: %+v, budget kept: %t", reserved, got.Router, got.Kept)
		}
	}
	status, out, _ := plan(t, tight(100, "5s"), planTenants(63), args...)
	broken := planJSON(t, ExitFound, tight(100, "5s"), planTenants(63), args...).Cells[0].Router
	for _, want := range []string{"eu-1  BROKEN  ", "of the router's 100", fmt.Sprintf("fix  reserve %d as router.reservedConcurrency or write router.attemptTimeout: %v", broken.Needed, seconds(broken.Longest))} {
		if status != ExitFound || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is missing:\n%s", status, want, out)
		}
	}
	if again := planJSON(t, ExitDone, tight(100, seconds(broken.Longest).String()), planTenants(63), args...).Cells[0].Router; !again.Kept {
		t.Errorf("the time-out that plan names is not kept: %+v", again)
	}
	if got := planJSON(t, ExitDone, tight(1, "28s"), "tenant\na\n", args...).Cells[0].Router; got != nil {
		t.Errorf("without loads the router is judged: %+v", got)
	}
	two := strings.Replace(tight(100, "100ms"), "concurrentFailures: 1", "concurrentFailures: 2", 1)
	two = strings.NewReplacer("fullyDown: 0%", "fullyDown: 100%", "capacityLoss: 50%", "capacityLoss: 100%", "capacity: 100", "capacity: 10000").Replace(two)
	if got := planJSON(t, ExitDone, two, planTenants(63), args...).Cells[0].Router; len(got.Hang) != 2 || got.Rate <= most {
		t.Errorf("of two that hang: %+v", got)
	}
}

// loose is a fleet whose budget is kept by any tenants.
var loose = strings.Replace(planFleet, "degradedTenants: 50%", "degradedTenants: 100%", 1)

// planTenants is a file of n tenants with a load of 1 to 9 requests per second.
func planTenants(n int) string {
	var b strings.Builder
	b.WriteString("tenant,load\n")
	for i := range n {
		fmt.Fprintf(&b, "t%03d,%d\n", i, 1+i%9)
	}
	return b.String()
}

// plan runs plan in a folder with this fleet.
func plan(t *testing.T, fleet, tenants string, args ...string) (status int, out, errw string) {
	t.Helper()
	inFolder(t, fleet)
	return command(tenants, slices.Concat([]string{"plan", "--tenants-file", "-"}, args)...)
}

// planJSON is the answer as a program reads it.
func planJSON(t *testing.T, wantStatus int, fleet, tenants string, args ...string) *planReport {
	t.Helper()
	status, out, errw := plan(t, fleet, tenants, append(args, "--json")...)
	var r planReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != wantStatus || strings.Count(out, "\n") != 1 {
		t.Fatalf("status %d, want %d; %v\n%s%s", status, wantStatus, err, out, errw)
	}
	return &r
}

// golden compares text with a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if it is meant to, go test ./internal/cli -run %s -update\n%s", file, t.Name(), got)
	}
}

func TestPlanText(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		tenants string
		status  int
	}{
		{"kept", planTenants(60), ExitDone},
		{"broken", planTenants(60) + "whale,90\norca,250\n", ExitFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errw := plan(t, planFleet, c.tenants)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, errw)
			}
			golden(t, filepath.Join(testdata, "plan-"+c.name+".txt"), out)
		})
	}
}

// What plan measures is what looking at every tenant and every shard, as place prints them, gives.
func TestPlanCountsWhatPlaceGives(t *testing.T) {
	inFolder(t, planFleet)
	key := strings.Repeat("0f", 32)
	if err := os.WriteFile("key", []byte(`{"1":"`+key+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const n = 70
	status, out, errw := command(planTenants(n), "place", "--scheme", "rendezvous/v1", "--shards", "7", "--zones", "a,b,c", "--per-tenant", "2", "--key-hex", key, "--tenants-file", "-", "--json")
	if status != ExitDone {
		t.Fatal(errw)
	}
	var tenants [7]int
	var loads [7]float64
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var placed struct{ Shards []int }
		if err := json.Unmarshal([]byte(line), &placed); err != nil {
			t.Fatal(err)
		}
		for _, s := range placed.Shards {
			tenants[s]++
			loads[s] += float64(1 + i%9)
		}
	}
	status, out, errw = command(planTenants(n), "plan", "--cell", "eu-1", "--key-file", "key", "--tenants-file", "-", "--json")
	var r planReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitDone {
		t.Fatalf("status %d, %v: %s", status, err, errw)
	}
	if strings.Contains(out+errw, key) {
		t.Error("the key is in the output")
	}
	c := r.Cells[0]
	single := c.Failures[0]
	if single.Failed != 1 || single.Sets != 7 || single.Degraded.Tenants.Worst != float64(slices.Max(tenants[:])) || single.Degraded.Load.Worst != slices.Max(loads[:]) {
		t.Errorf("%+v; tenants %v, loads %v", single.Degraded, tenants, loads)
	}
	for i, s := range c.Shards {
		if s.Tenants != tenants[i] || s.Load != loads[i]/2 || s.Utilisation != loads[i]/200 {
			t.Errorf("%+v, want %d tenants and a load of %v", s, tenants[i], loads[i]/2)
		}
	}
	if line := c.Budget.Lines[0]; line.Found != float64(slices.Max(tenants[:]))/n || line.Limit != 0.5 || !line.Kept {
		t.Errorf("%+v", line)
	}
	if r.Key != "file" || !r.Kept || c.Load != c.Fairness.Load.Mean*7 {
		t.Errorf("%+v", r)
	}
}

// A tenant that fills a shard is named, with the k that it needs, and the number of shards that would do holds.
func TestPlanNamesWhoIsTooBig(t *testing.T) {
	r := planJSON(t, ExitFound, planFleet, planTenants(20)+"whale,150\norca,5000\n", "--cell", "eu-1")
	f := r.Cells[0].Fairness
	if f.TooBigCount != 2 || f.TooBig[0].Tenant != "orca" || f.TooBig[0].Needed != 0 || f.TooBig[1].Tenant != "whale" || f.TooBig[1].Needed != 3 {
		t.Errorf("%+v", f.TooBig)
	}
	if f.Top[0].Tenant != "orca" || f.Top[1].Tenant != "whale" || len(f.Top) != 20 || f.TopShare <= f.Top[0].Share {
		t.Errorf("%+v", f.Top)
	}
	head := r.Cells[0].Headroom
	if !head.Cascades || len(head.Steps) == 0 || r.Kept {
		t.Errorf("%+v", head)
	}
}

// A tenant that fills a shard alone is no matter of n, and the headline says so of no n; no smaller fleet is named
// unless the budget has every line.
func TestPlanAdvice(t *testing.T) {
	fleet := func(n, k int, budget string) string {
		return strings.NewReplacer("shards: 7", fmt.Sprintf("shards: %d", n), "perTenant: 2, sizes: {whale: {perTenant: 4}}", fmt.Sprintf("perTenant: %d", k),
			"budget: {concurrentFailures: 1, degradedTenants: 50%, capacityLoss: 50%, fullyDown: 0%}", budget, "capacity: 100", "capacity: 1000").Replace(planFleet)
	}
	var whale strings.Builder
	whale.WriteString("tenant,load\nwhale,1500\n")
	for i := range 500 {
		fmt.Fprintf(&whale, "t%03d,1\n", i)
	}
	for _, c := range []struct {
		status       int
		fleet        string
		want, cannot []string
	}{
		{ExitFound, fleet(12, 2, ""), []string{
			"n = 18, k = 3 would keep it (now n = 12, k = 2)", "no n up to 999 at k = 2 keeps it: tenant whale alone is 150.00 %", "k = 3 would carry it",
			"not set: degradedTenants (now 22.16 %), capacityLoss (now 50.00 %), fullyDown (now 0.00 %)",
		}, []string{"equal loads", "about"}},
		{ExitDone, fleet(12, 3, ""), []string{
			"kept  whatever 1 of 12 shards fail\n", "not set: degradedTenants", "no smaller fleet is looked for", "breaks today's degradedTenants", "today's n = 12, k = 3 keeps it\n",
		}, []string{"so would", "would keep"}},
		{ExitDone, fleet(12, 3, "budget: {concurrentFailures: 1, degradedTenants: 100%, capacityLoss: 33.33%, fullyDown: 0%}"), []string{
			"kept  whatever 1 of 12 shards fail\n", "today's n = 12, k = 3 keeps it; so would n = 3, k = 3", "n = 3, k = 3 gives up, against today: degraded", "<- smallest", "<- today",
		}, []string{"would keep", "33.33 %, at most 33.33 %"}},
		// All of them may fail.
		{ExitDone, fleet(16, 2, "budget: {concurrentFailures: 16}"), []string{"kept  whatever 16 of 16 shards fail", "leaves no shard when 16 fail"}, nil},
		{ExitFound, fleet(17, 2, "budget: {concurrentFailures: 16, fullyDown: 10%}"), []string{"BROKEN  fullyDown"}, nil},
		// Nobody has all of 18 shards among 17, though the failures are drawn.
		{ExitFound, fleet(16, 2, "budget: {concurrentFailures: 17, fullyDown: 0%}"), []string{"k = 19 would keep it"}, nil},
	} {
		status, out, errw := plan(t, c.fleet, whale.String(), "--cell", "eu-1")
		if status != c.status {
			t.Errorf("status %d, want %d: %s", status, c.status, errw)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing:\n%s", want, out)
			}
		}
		head, _, _ := strings.Cut(out, "\nFailures")
		for _, cannot := range c.cannot {
			if strings.Contains(head, cannot) {
				t.Errorf("%q is told:\n%s", cannot, out)
			}
		}
	}
}

// A size class that loses more than it may is named: no n and no k of the others mends that.
func TestPlanNamesTheSizeClass(t *testing.T) {
	status, out, errw := plan(t, strings.Replace(planFleet, "sizes: {whale: {perTenant: 4}}", "sizes: {tiny: {perTenant: 1}}", 1),
		"tenant,load,size\na,1,\nb,1,tiny\nc,1,\n", "--cell", "eu-1")
	if want := "size class tiny has 1 shard for each of its 1 tenant, and who loses 1 of them loses 100.00 %; it needs 2 at least"; status != ExitFound || !strings.Contains(out, want) {
		t.Errorf("status %d, %s, want %q in\n%s", status, errw, want, out)
	}
}

// With one shard for each tenant a failed shard takes down who is on it, all of its capacity lost.
func TestPlanFullyDown(t *testing.T) {
	r := planJSON(t, ExitFound, strings.Replace(loose, "perTenant: 2", "perTenant: 1", 1), planTenants(50), "--cell", "eu-1")
	c := r.Cells[0]
	worst := 0
	for _, s := range c.Shards {
		worst = max(worst, s.Tenants)
	}
	if l := c.Budget.Lines[2]; l.Line != "fullyDown" || l.Kept || l.Found != float64(worst)/50 || len(l.Worst) != 1 {
		t.Errorf("%+v, want %d of 50", l, worst)
	}
	if l := c.Budget.Lines[1]; l.Line != "capacityLoss" || l.Kept || l.Found != 1 {
		t.Errorf("%+v", l)
	}
}

func TestPlanLoadPer(t *testing.T) {
	for per, seconds := range map[string]float64{"second": 1, "minute": 60, "hour": 3600, "day": 86400, "month": 2592000} {
		status := ExitFound
		if 5184000/seconds <= 200 { // which the one that is left of its two shards carries
			status = ExitDone
		}
		r := planJSON(t, status, strings.Replace(loose, "capacity: 100", "capacity: 200", 1), "tenant,load\na,5184000\n", "--cell", "eu-1", "--load-per", per)
		// Who forgets the period is told.
		if got := r.Cells[0].Load; got != 5184000/seconds || (len(r.Assumed) > 0) != (per == "second") {
			t.Errorf("per %s: %v, %q", per, got, r.Assumed)
		}
	}
}

// Who names no cell is dealt as by sign-up; a column cell decides otherwise.
func TestPlanGivesTenantsToCells(t *testing.T) {
	fleet := loose + `  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 14}` + "\n"
	tenants := func(r *planReport) (n []int) {
		for _, c := range r.Cells {
			n = append(n, c.Tenants)
		}
		return n
	}
	r := planJSON(t, ExitDone, fleet, "a\nb\nc\nd\ne\nf\n")
	if n := tenants(r); !slices.Equal(n, []int{0, 2, 4}) || len(r.Assumed) != 2 || !r.Cells[0].Empty || r.Cells[1].Capacity != 0 {
		t.Errorf("%v, %q", n, r.Assumed)
	}
	if len(r.Waves) != 3 || r.Waves[2].Tenants != 4 || r.Waves[1].Cells[0] != "eu-1" {
		t.Errorf("%+v", r.Waves)
	}
	fleet = strings.Replace(fleet, "degradedTenants: 60%", "degradedTenants: 100%", 1)
	const file = "tenant,load,cell,size,pins\na,1,eu-canary,,\nb,1,us-1,whale,\nc,1,us-1,,s01 s05 s09\n"
	r = planJSON(t, ExitDone, fleet, file)
	if n := tenants(r); !slices.Equal(n, []int{1, 0, 2}) || len(r.Assumed) != 0 {
		t.Errorf("%v, %q", n, r.Assumed)
	}
	if lose := r.Cells[2].Failures[0].Lose; len(lose) != 4 || lose[0].Of != 3 || lose[3].Of != 4 {
		t.Errorf("a pinned tenant with 3 shards and a whale with 4: %+v", lose)
	}
	if r = planJSON(t, ExitDone, fleet, file, "--cell", "us-1"); len(r.Assumed) != 1 || len(r.Cells) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestPlanMeasuresDeclaredSets(t *testing.T) {
	r := planJSON(t, ExitDone, loose, planTenants(40), "--cell", "eu-1", "--set", "rack=s01, s02", "--set", "one=s07")
	sets := r.Cells[0].Sets
	var names []string
	for _, s := range sets {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"zone a", "zone b", "zone c", "rack", "one"}) || !slices.Equal(sets[0].Shards, []string{"s01", "s04", "s07"}) || sets[0].FullyDown != 0 {
		t.Errorf("%+v", sets)
	}
	if sets[3].Degraded <= sets[4].Degraded || sets[3].Utilisation == 0 {
		t.Errorf("%+v", sets[3:])
	}
}

func TestPlanSchemes(t *testing.T) {
	hmac := strings.Replace(loose, "placement: {", "placement: {scheme: hmac/v1, ", 1)
	r := planJSON(t, ExitDone, hmac, planTenants(30), "--cell", "eu-1")
	if z := r.Cells[0].Zones; !z.Even || !z.Growth[0].Anew || r.Cells[0].Noise.AllInOneZone == 0 {
		t.Errorf("%+v", z)
	}
	bounded := strings.NewReplacer("placement: {perTenant: 2, sizes: {whale: {perTenant: 4}}}", "placement: {scheme: bounded/v1, perTenant: 2, maxShared: 1}",
		"zones: [a, b, c], shards: 7", "zones: [a, b], shards: 10", "degradedTenants: 60%", "degradedTenants: 100%").Replace(loose)
	r = planJSON(t, ExitDone, bounded, planTenants(25), "--cell", "eu-1")
	if c := r.Cells[0]; *c.MaxShared != 1 || c.Subsets != 25 || c.Fairness.Tenants.MaxOverMean != 1 {
		t.Errorf("25 places for 25 tenants, each with its own subset: %+v", c)
	}
	status, out, errw := plan(t, bounded, planTenants(26), "--cell", "eu-1")
	if status != ExitUsage || out != "" || !strings.Contains(errw, "has room for 25 tenants, too few for 26: shards: 14 has enough") {
		t.Errorf("status %d, %q, %q", status, out, errw)
	}
}

// Failures that are too many to measure are drawn, and a line is kept only where none of them can break it.
func TestPlanDrawsFailures(t *testing.T) {
	fleet := strings.NewReplacer("concurrentFailures: 1", "concurrentFailures: 4", "shards: 7", "shards: 120", "capacityLoss: 50%", "capacityLoss: 100%", "fullyDown: 0%", "fullyDown: 100%", "capacity: 100", "capacity: 100000").Replace(planFleet)
	r := planJSON(t, ExitDone, fleet, planTenants(300), "--cell", "eu-1")
	f := r.Cells[0].Failures[3]
	line := r.Cells[0].Budget.Lines[0]
	if !f.Sampled || f.Failed != 4 || f.Sets != planSampling.Sets || f.Degraded.Tenants.AtMost < f.Degraded.Tenants.Worst || line.Found != f.Degraded.Tenants.AtMost/300 || len(line.Worst) != 4 {
		t.Errorf("%+v, %+v", f, line)
	}
	status, out, _ := plan(t, fleet, planTenants(300), "--cell", "eu-1")
	if status != ExitDone || !strings.Contains(out, "failures were drawn, not all measured") || !strings.Contains(out, "of 4 shards a sample was drawn") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// With a home for state, capacity lost is keys lost; a fan-out says how often it is slow.
func TestPlanHomeAndFanout(t *testing.T) {
	fleet := strings.Replace(loose, "  lambda:", "  table: {}\n  state: {mode: home}\n  lambda:", 1) + "routes: [{path: /all, via: lambda, fanout: true}, {path: /*, via: lambda}]\n"
	status, out, errw := plan(t, fleet, planTenants(30), "--cell", "eu-1")
	for _, want := range []string{"capacity lost is keys lost", "meets one beyond its 99th percentile 1.99 % of the time"} {
		if status != ExitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is missing:\n%s%s", status, want, out, errw)
		}
	}
}

// From the directory each tenant is placed as it is, by its topology, size and pins.
func TestPlanFromADirectory(t *testing.T) {
	o := openOffice(t)
	for i := range 12 {
		o.must("tenant", "add", fmt.Sprintf("t%02d", i), "--load", "1.5")
	}
	o.must("tenant", "pin", "t00", "s01", "s02", "s03")
	var want [6]int
	for i := range 12 {
		for _, id := range o.show(fmt.Sprintf("t%02d", i)).Subset {
			want[id.Shard[2]-'1']++
		}
	}
	var r planReport
	if err := json.Unmarshal([]byte(o.must("plan", "--cell", "eu-1", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Cells[0].Shards {
		if s.Tenants != want[i] {
			t.Errorf("%s has %d tenants, want %d", s.ID, s.Tenants, want[i])
		}
	}
	if r.Key != "file" || r.Cells[0].Load != 18 {
		t.Errorf("%+v", r)
	}
	// A size class that the fleet has no more is the topology's.
	o.must("tenant", "add", "whale", "--size", "whale")
	o.write("fleet.yaml", strings.Replace(directoryFleet, ", sizes: {whale: {perTenant: 3}}}", "}\nbudget: {degradedTenants: 100%}", 1))
	if out := o.must("plan", "--cell", "eu-1"); !strings.Contains(out, "13 tenants") || !strings.Contains(out, "places nobody: ") {
		t.Error(out)
	}
	if did := o.must("tenant", "history", "--operator", "ann"); !strings.Contains(did, "plan") {
		t.Errorf("the reading is not on record:\n%s", did)
	}
	if code, _, errs := o.bare("plan", fileArg, "--by=ann"); code != ExitDone || !strings.Contains(errs, "example key") {
		t.Errorf("without a key: status %d, %s", code, errs)
	}
}

func TestPlanRefuses(t *testing.T) {
	bounded := strings.Replace(planFleet, "placement: {", "placement: {scheme: bounded/v1, maxShared: 1, ", 1)
	for _, c := range []struct {
		name, fleet, tenants string
		args                 []string
		want                 string
	}{
		{"an unknown cell", planFleet, "a\n", []string{"--cell", "eu-9"}, `eu-9`},
		{"two sources", planFleet, "a\n", []string{"--directory", "local"}, "give one of --tenants-file and --directory"},
		{"a period", planFleet, "a\n", []string{"--load-per", "week"}, "--load-per week: want second, minute"},
		{"a set without shards", planFleet, "a\n", []string{"--set", "rack"}, `--set "rack": want a name and the shards`},
		{"a set with none", planFleet, "a\n", []string{"--set", "rack="}, `--set "rack=": want a name`},
		{"a set without a name", planFleet, "a\n", []string{"--set", "=s01"}, `--set "=s01": want a name`},
		{"a set twice", planFleet, "a\n", []string{"--set", "x=s01", "--set", "x=s02"}, "--set x is given twice"},
		{"a set of others", planFleet, "a\n", []string{"--set", "x=s01,s99"}, "--set x: no cell that is planned has all"},
		{"a shard twice in a set", planFleet, "a\n", []string{"--set", "x=s01,s01"}, "--set x: no cell that is planned has all"},
		{"a set called as a zone", planFleet, "a\n", []string{"--set", "zone a=s01"}, "--set: not a set of shards"},
		{"no tenants", planFleet, "", nil, "standard input has no tenants"},
		{"a negative load", planFleet, "tenant,load\na,-1\n", nil, `standard input:2: the load "-1" is negative`},
		{"no load", planFleet, "tenant,load\na,\n", nil, "standard input:2: the load is missing"},
		{"a load that is none", planFleet, "tenant,load\na,1\nb,NaN\n", nil, `standard input:3: the load "NaN" is not a number`},
		{"an infinite load", planFleet, "tenant,load\na,1e999\n", nil, `standard input:2: the load "1e999" is beyond`},
		{"a load beyond all use", planFleet, "tenant,load\na,1e300\n", nil, "standard input:2: tenant a: the load 1e+300 is above"},
		{"a tenant twice", planFleet, "tenant,load\na,1\na,1\n", nil, `standard input:3: tenant "a" was named before, at 2`},
		{"no text", planFleet, "tenant,load\n\xff,1\n", nil, `standard input:2: the tenant's id is "\xff", not valid UTF-8`},
		{"a long line", planFleet, "a\n" + strings.Repeat("x", 10_000) + "\n", nil, "standard input:2: the line is longer"},
		{"another column", planFleet, "tenant,load,region\na,1,eu\n", nil, "standard input:1: the header is"},
		{"a column twice", planFleet, "tenant,load,size,size\na,1,,\n", nil, "standard input:1: the header is"},
		{"a field too few", planFleet, "tenant,load,size\na,1\n", nil, "standard input:2: the line has 2 fields, and the header 3"},
		{"an open quote", planFleet, "tenant,load,size\na,1,\"x\n", nil, "standard input:2: in "},
		{"a cell that is not there", planFleet, "tenant,load,cell\na,1,mars\n", nil, `standard input:2: tenant a is in cell "mars"`},
		{"a size that is not there", planFleet, "tenant,load,size\na,1,tiny\n", nil, `standard input:2: tenant a: not valid in the directory: topology 1 of cell "eu-1" has no size class "tiny": want none, for the default, or one of "whale"`},
		{"a size where there is none", strings.Replace(planFleet, ", sizes: {whale: {perTenant: 4}}", "", 1), "tenant,load,size\na,1,tiny\n", nil, `has no size class "tiny": it has none but the default`},
		{"a pin that is not there", planFleet, "tenant,load,pins\na,1,s99\n", nil, `standard input:2: tenant a: `},
		{"a pin twice", planFleet, "tenant,load,pins\na,1,s01 s01\n", nil, `standard input:2: the tenant is pinned to shard "s01" twice`},
		{"k above n", strings.Replace(planFleet, "perTenant: 2", "perTenant: 9", 1), "a\n", nil, "fleet.yaml has "},
		{"no shards", strings.Replace(planFleet, "shards: 7", "shards: 0", 1), "a\n", nil, "fleet.yaml has "},
		{"an unknown scheme", strings.Replace(planFleet, "placement: {", "placement: {scheme: random, ", 1), "a\n", nil, "fleet.yaml has "},
		{"a field too small", bounded, "a\n", nil, "fleet.yaml has "},
	} {
		status, out, errw := plan(t, c.fleet, c.tenants, c.args...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, c.want) {
			t.Errorf("%s: status %d, output %q, error %q; want status 2 and %q", c.name, status, out, errw, c.want)
		}
	}
	inFolder(t, planFleet)
	if status, out, errw := command("", "plan"); status != ExitUsage || out != "" || !strings.Contains(errw, "--tenants-file and --directory") {
		t.Errorf("without tenants: status %d, %q, %q", status, out, errw)
	}
}

// A file with several keys needs a topology to choose one.
func TestPlanKeyFile(t *testing.T) {
	inFolder(t, planFleet)
	one, two := strings.Repeat("0f", 32), strings.Repeat("f0", 32)
	for _, c := range []struct {
		text string
		code int
	}{
		{one, ExitDone}, {`{"1":"` + one + `"}`, ExitDone}, {`{"1":"` + one + `","2":"` + two + `"}`, ExitUsage},
		{`{"1":"0f"}`, ExitUsage}, {`{}`, ExitUsage}, {`{"1":`, ExitUsage}, {"0f", ExitUsage}, {`{"1":5}`, ExitUsage},
	} {
		if err := os.WriteFile("key", []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out, errw := command(planTenants(9), "plan", "--cell", "eu-1", "--key-file", "key", "--tenants-file", "-")
		if status != c.code || (out == "") != (status == ExitUsage) || strings.Contains(out+errw, one) || strings.Contains(errw, "example") {
			t.Errorf("%s: status %d, want %d: %s", c.text, status, c.code, errw)
		}
	}
}
