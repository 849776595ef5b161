package stamp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
)

// none is a period without data.
const none = -1

// state is what CloudWatch makes of an alarm's latest periods, the newest last, as its user guide has it ("Evaluating
// an alarm", "Configuring how CloudWatch alarms treat missing data").
func (a alarm) state(periods ...float64) string {
	var bad, known int
	for _, v := range periods[len(periods)-a.of:] {
		switch beyond := map[comparison]bool{above: v > a.threshold, below: v < a.threshold, atLeast: v >= a.threshold}[a.compare]; {
		case v == none && a.missing == missingIsGood:
			known++
		case v == none && a.missing == "breaching":
			known, bad = known+1, bad+1
		case v == none: // it counts for nothing
		case beyond:
			known, bad = known+1, bad+1
		default:
			known++
		}
	}
	switch {
	case bad >= a.bad:
		return "ALARM"
	case known == 0:
		return "INSUFFICIENT_DATA"
	}
	return "OK"
}

// measures is the alarm's first metric; "" when an expression fetches what it is of.
func (a alarm) measures() string {
	if len(a.metrics) == 0 {
		return ""
	}
	return a.metrics[0].name
}

// allAlarms are those of a shard, a cell, a front door and the directory of a fleet that has everything.
func allAlarms(t *testing.T) []alarm {
	t.Helper()
	f := sample(t, shapes["per-shard"], func(f *fleet.Fleet) {
		f.Directory.Replicas, f.FrontDoor = []string{"us-east-1"}, &fleet.FrontDoor{Memory: 512, ReservedConcurrency: 100}
	})
	plans, err := input(f).plan(t.TempDir())
	must(t, err)
	p := plans[0]
	return slices.Concat(shardAlarms(p, p.shards[0], watched{targets: str("targets"), balancer: str("balancer")}), cellAlarms(p),
		doorAlarms(f, "eu-west-1", str("api")), seenCells(f, "eu-west-1"), directoryAlarms(f, "eu-west-1"))
}

// TestQuietAtBirth: no alarm rings when it is made, nor in the minutes that follow, of what is new: nothing is measured
// yet, or a load balancer has targets that it has not found healthy, and a group counts instances that it is launching.
func TestQuietAtBirth(t *testing.T) {
	begins := map[string][]float64{
		"HealthyHostCount": {none, 0, 2}, // healthy within half a minute: only one whole minute may be without
		inService:          {0, 0, 2},    // launched within two minutes, and made when they have given their word
	}
	for _, a := range allAlarms(t) {
		history := slices.Repeat([]float64{none}, 30)
		for _, next := range append([]float64{none}, begins[a.measures()]...) {
			history = append(history, next)
			if s := a.state(history...); s == "ALARM" {
				t.Errorf("%s rings at birth after %v", a.kind, history[28:])
			}
		}
	}
}

// TestLoudAtDeath: a shard whose last instance falls sick rings, and so does one that has none any more, of which its
// load balancer says nothing.
func TestLoudAtDeath(t *testing.T) {
	alive := slices.Repeat([]float64{2}, 30)
	for death, of := range map[string]map[string][]float64{
		"sick": {"HealthyHostCount": {0, 0, 0}, inService: {2, 2, 2}},
		"gone": {"HealthyHostCount": {none, none, none}, inService: {0, 0, 0}},
	} {
		var rings []string
		for _, a := range allAlarms(t) {
			if last, ok := of[a.measures()]; ok && a.state(append(slices.Clone(alive), last...)...) == "ALARM" {
				rings = append(rings, a.kind)
				if a.tells != together {
					t.Errorf("nothing is over %s", a.kind)
				}
			}
		}
		if want := map[string]string{"sick": "no-targets", "gone": "no-instances"}[death]; strings.Join(rings, " ") != want {
			t.Errorf("%s: %v ring, want %s", death, rings, want)
		}
	}
	for _, r := range shape(t, "per-shard")[shardPath].of("AWS::AutoScaling::AutoScalingGroup") {
		if got := text(r.at("MetricsCollection")); got != `[{"Granularity":"1Minute","Metrics":["`+inService+`"]}]` {
			t.Errorf("the group counts %s", got)
		}
	}
}

// TestUnevenLoadRings: whatever the interval of a keeper's runs, and however late in its minute or long one is, each
// period that load-variation looks at has the word of a run, and it rings within two hours.
func TestUnevenLoadRings(t *testing.T) {
	f := sample(t)
	for every := 1; every <= 15; every++ {
		f.Keeper.Every = time.Duration(every) * time.Minute
		plans, err := input(f).plan(t.TempDir())
		must(t, err)
		a := variationAlarm(plans[0], 4)
		for phase := 0; phase < a.period; phase += 30 {
			periods := slices.Repeat([]float64{none}, 2*3600/a.period)
			for run := 0; ; run++ {
				at := phase + run*every*minute + run%2*(minute-1) // every other one as late as EventBridge may be
				if at/a.period >= len(periods) {
					break
				}
				periods[at/a.period] = a.threshold + 1
			}
			if s := a.state(periods...); s != "ALARM" {
				t.Fatalf("a keeper that runs each %d minutes, %d s into a period of %d s: %s after %v", every, phase, a.period, s, fmt.Sprint(periods))
			}
		}
	}
}

// TestTenantsAreCountedFirst: the alarm that asks the rules of Contributor Insights is made after them.
func TestTenantsAreCountedFirst(t *testing.T) {
	watch := shape(t, "per-shard")[watchPath]
	failing := watch.named(t, alarmType, "AlarmName", "orders/eu-canary/failing-tenants")
	rules := 0
	for id, r := range watch.Template.Resources {
		if r.Type == "AWS::CloudWatch::InsightRule" {
			if rules++; !slices.Contains(failing.DependsOn, id) {
				t.Errorf("failing-tenants is not made after %s", id)
			}
		}
	}
	if rules != 2 {
		t.Errorf("%d rules", rules)
	}
}
