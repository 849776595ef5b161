package quarantine

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// TestTogether draws what environments say of an innocent tenant: a chance is at most x with probability x, and
// told below 1e-2. How often they say something as telling as the bound has to be within the bound.
func TestTogether(t *testing.T) {
	const draws = 200_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= 4; n++ {
		for _, level := range []float64{0.5, 0.1, 0.01, 0.001} {
			as := 0
			chances := make([]float64, n)
			for range draws {
				for i := range chances {
					chances[i] = rng.Float64() * told
				}
				// All of them are told with the probability toldⁿ.
				if together(chances) <= level*math.Pow(told, float64(n)) {
					as++
				}
			}
			if got := float64(as) / draws; got > level+5*math.Sqrt(level/draws) {
				t.Errorf("of %d: as telling as %v with the probability %v", n, level, got)
			}
		}
	}
	for _, c := range []struct {
		chances []float64
		firm    bool
	}{
		{nil, false}, {[]float64{1e-2}, false}, {[]float64{1e-6}, true}, {[]float64{1e-2, 1e-2}, false}, {[]float64{1e-3, 1e-3}, false},
		{[]float64{1e-4, 7e-4}, true}, {[]float64{1e-4, 1.3e-3}, true}, {[]float64{1e-4, 1.4e-3}, false}, {[]float64{1e-2, 1e-2, 1e-2}, true}, {[]float64{0, 0}, true},
	} {
		if got := together(c.chances); (got <= firm*(1+1e-9)) != c.firm {
			t.Errorf("%v together: %v", c.chances, got)
		}
	}
}

func TestOnlyFirm(t *testing.T) {
	w := newWorld(t, "acme", "zeta")
	old := w.firmly("zeta")
	old.At = w.now.Add(-window - time.Second)
	again := w.says("a", "zeta", 1e-3)
	again.Repeats = 2 // on probation in one router, whatever for
	unlikely := w.says("b", "zeta", 0.03)
	o := w.take(old, again, unlikely, w.firmly("nobody"), w.says("a", "acme", 1e-2), w.says("a", "acme", 1e-9), w.says("b", "acme", 1e-2))
	if got := whats(o.Events); !slices.Equal(got, []string{Unknown}) || o.Suspects != 0 {
		t.Errorf("%v, %d suspects", o.Events, o.Suspects)
	}
	w.now = w.now.Add(window + time.Second)
	w.take(w.says("c", "acme", 1e-2), w.says("d", "acme", 1e-2)) // what a and b said is over
	if len(w.entry("acme").Pins)+len(w.entry("zeta").Pins) > 0 {
		t.Error("a tenant was pinned for nothing")
	}
	o = w.take(w.says("e", "acme", 1e-2))
	if got := whats(o.Events); !slices.Equal(got, []string{Suspected, Pinned}) || o.Quarantined != 1 || o.Suspects != 1 {
		t.Fatalf("%+v", o)
	}
	if e := w.entry("acme"); !slices.Equal(e.Pins, []string{"s07", "s08"}) || e.Epoch != 3 {
		t.Errorf("entry %+v", e)
	}
	w.whole("acme")
	log, err := w.res.History(t.Context(), "acme", 2, 1)
	if err != nil || log[0].By != By || log[0].Why != "its requests take down s01 s02" {
		t.Errorf("history %+v, %v", log, err)
	}
	held, err := w.keeper().Suspects(t.Context())
	if err != nil || len(held) != 1 || held[0].Tenant != "acme" || !held[0].Until.Equal(w.now.Add(firstHold)) {
		t.Errorf("held %+v, %v", held, err)
	}
}

// TestHolds: a suspect is held for longer each time, and forgotten after a quiet time.
func TestHolds(t *testing.T) {
	w := newWorld(t, "acme")
	q := w.keeper() // without a quarantine
	hold := func(v Verdict) time.Duration {
		t.Helper()
		v.Until = v.At
		if _, err := q.Take(t.Context(), []Verdict{v}); err != nil {
			t.Fatal(err)
		}
		held, err := q.Suspects(t.Context())
		if err != nil || len(held) != 1 {
			t.Fatalf("%v, %v", held, err)
		}
		return held[0].Until.Sub(w.now)
	}
	probation := func() Verdict { v := w.says("any", "acme", 0.03); v.Repeats = 1; return v }
	for i, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		v := probation()
		if i == 0 {
			v = w.firmly("acme")
		}
		if got := hold(v); got != want*time.Minute {
			t.Errorf("hold %d is of %v", i+1, got)
		}
		w.now = w.now.Add(time.Minute)
		if got := hold(probation()); got != (want-1)*time.Minute {
			t.Errorf("told again while it is held: %v", got)
		}
		w.now = w.now.Add(want * time.Minute)
	}
	w.now = w.now.Add(window)
	if _, err := q.Take(t.Context(), []Verdict{probation()}); err != nil {
		t.Fatal(err)
	}
	if held, err := q.Suspects(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("after a quiet time %v, %v", held, err)
	}
}

func TestPinnedOnce(t *testing.T) {
	w := newWorld(t, "acme")
	var wait sync.WaitGroup
	for range 8 {
		q := w.keeper("s07", "s08")
		wait.Go(func() {
			for range 5 {
				if _, err := q.Take(t.Context(), []Verdict{w.firmly("acme")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if e := w.entry("acme"); e.Epoch != 3 || !slices.Equal(e.Pins, []string{"s07", "s08"}) {
		t.Errorf("entry %+v", e)
	}
	w.whole("acme")
	// Another keeper comes between, at each write: it takes the same verdict, and one on another tenant.
	for at := 1; at <= 6; at++ { // or the first of the directory's after that
		w := newWorld(t, "acme", "zeta")
		w.home.writes = 0
		came := false
		w.home.meanwhile = func(write int) {
			if write >= at && !came {
				came = true
				w.take(w.firmly("acme"), w.firmly("zeta"))
			}
		}
		w.take(w.firmly("acme"))
		w.home.meanwhile = nil
		if o := w.run(); o.Quarantined != 2 || o.Suspects != 2 || w.entry("acme").Epoch != 3 || w.entry("zeta").Epoch != 3 {
			t.Errorf("with another keeper at write %d: %+v", at, o)
		}
		all, err := Standings(t.Context(), w.res, "eu-1", w.now)
		if err != nil || len(all) != 2 || all[0].Tenant != "acme" || !slices.Equal(all[0].Shards, []string{"s07", "s08"}) || all[1].Tenant != "zeta" || !all[1].Until.Equal(w.now.Add(firstHold)) {
			t.Errorf("with another keeper at write %d: %+v, %v", at, all, err)
		}
	}
}

// TestIntentOnce: a keeper that noted the intent and went away leaves it to the next one, who notes no second.
func TestIntentOnce(t *testing.T) {
	w := newWorld(t, "acme")
	w.home.writes = 0
	w.home.meanwhile = func(write int) {
		if write == 2 { // the first one's intent, when the other's stands already
			w.now = w.now.Add(time.Second) // so that the two intents are not one
			w.home.after, w.home.early = w.home.writes+2, true
			if _, err := w.keeper("s07", "s08").Take(t.Context(), []Verdict{w.firmly("acme")}); err == nil {
				t.Error("it did not go away")
			}
			w.home.after = 0
		}
	}
	w.take(w.firmly("acme"))
	w.home.meanwhile = nil
	s, err := w.keeper().read(t.Context())
	if err != nil || len(s.Pins) != 1 {
		t.Errorf("pins %+v, %v", s.Pins, err)
	}
	if o := w.run(); o.Quarantined != 1 || w.entry("acme").Epoch != 3 {
		t.Errorf("%+v", o)
	}
	w.whole("acme")
}

// TestEmptiest: tenants are spread over a quarantine that has more shards than one needs.
func TestEmptiest(t *testing.T) {
	w := newWorld(t, "acme", "zeta")
	q := w.keeper("s06", "s07", "s08", "s99")
	for _, c := range []struct {
		tenant string
		pins   []string
	}{{"acme", []string{"s06", "s07"}}, {"zeta", []string{"s08", "s06"}}} {
		if _, err := q.Take(t.Context(), []Verdict{w.firmly(c.tenant)}); err != nil || !slices.Equal(w.entry(c.tenant).Pins, c.pins) {
			t.Errorf("%s is pinned to %v, %v; want %v", c.tenant, w.entry(c.tenant).Pins, err, c.pins)
		}
	}
}

// TestCrash stops the keeper at every one of its writes, before it and after, and lets another go on; in the second
// case an operator has moved the tenant on meanwhile.
func TestCrash(t *testing.T) {
	for _, meddled := range []bool{false, true} {
		steps := 0
		for at := 1; ; at++ {
			for _, early := range []bool{true, false} {
				w := newWorld(t, "acme", "bcme", "ccme", "dcme")
				tenant := w.elsewhere()
				w.home.writes, w.home.after, w.home.early = 0, at, early
				_, err := w.keeper("s07", "s08").Take(t.Context(), []Verdict{w.firmly(tenant)})
				steps = w.home.writes
				w.home.after = 0
				if meddled {
					if _, err := w.res.Pin(t.Context(), tenant, []string{"s03", "s08"}, 0, w.change("by hand")); err != nil {
						t.Fatal(err)
					}
				}
				o := w.take(w.firmly(tenant))
				if meddled { // which is seen in the next run, and then decided upon
					w.run()
				}
				again := w.run()
				if len(again.Events) > 0 {
					t.Errorf("stopped at %d: a run with nothing to do tells %+v", at, again.Events)
				}
				w.whole(tenant)
				e := w.entry(tenant)
				switch {
				case meddled && !slices.Equal(e.Pins, []string{"s03", "s08"}), !meddled && !slices.Equal(e.Pins, []string{"s07", "s08"}):
					t.Errorf("stopped at write %d (early %t, meddled %t; %v): pinned to %v; then %+v", at, early, meddled, err, e.Pins, o)
				case !meddled && (e.Epoch != 3 || o.Quarantined != 1):
					t.Errorf("stopped at write %d (early %t): epoch %d, %+v", at, early, e.Epoch, o)
				}
			}
			if at > steps {
				break
			}
		}
		// Verdict, intent, two holds, the flip, two releases, done.
		if steps != 8 {
			t.Errorf("%d steps", steps)
		}
	}
}

func TestLeftAlone(t *testing.T) {
	w := newWorld(t, "pinned", "suspended", "moving", "stays")
	w.signUp(directory.SignUp{Tenant: "large", Load: 170_000}) // 85 a second on each of two, of 125 less 30 %
	w.signUp(directory.SignUp{Tenant: "later", Load: 10_000})
	if _, err := w.res.Pin(t.Context(), "pinned", []string{"s03"}, 0, w.change("pin")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.res.Suspend(t.Context(), "suspended", 0, w.change("suspend")); err != nil {
		t.Fatal(err)
	}
	e := w.entry("moving")
	moving := e.Clone()
	moving.State = directory.Moving
	if _, err := w.res.Settle(t.Context(), e, moving, w.change("move")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.res.Place(t.Context(), directory.SignUp{Tenant: "placing"}, w.change("place")); err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for tenant, want := range map[string]string{
		"pinned": "it is pinned already, to s03", "suspended": "it is suspended", "moving": "it is moving", "placing": "it is placing",
	} {
		before := w.entry(tenant)
		for _, e := range w.take(w.firmly(tenant)).Events {
			if e.What == LeftAlone {
				why[e.Tenant] = e.Why
			}
		}
		if after := w.entry(tenant); after.Epoch != before.Epoch || !strings.HasPrefix(why[tenant], want) {
			t.Errorf("%s: epoch %d, before %d; left alone because %q", tenant, after.Epoch, before.Epoch, why[tenant])
		}
	}
	// One fills most of the quarantine, and another is too large for the rest.
	w.take(w.firmly("later"))
	o := w.take(w.firmly("large"))
	if len(o.Events) != 2 || o.Events[1].What != LeftAlone || !strings.Contains(o.Events[1].Why, "larger than the quarantine: shard s07 would have 90 of at most 87.5") {
		t.Errorf("%+v", o.Events)
	}
	if o = w.run(); len(o.Events) > 0 {
		t.Errorf("told twice: %+v", o.Events)
	}
	// What moved may be pinned when it has come, while it is held.
	e = w.entry("moving")
	active := e.Clone()
	active.State = directory.Active
	if _, err := w.res.Settle(t.Context(), e, active, w.change("moved")); err != nil {
		t.Fatal(err)
	}
	if o = w.run(); !slices.Equal(whats(o.Events), []string{Pinned}) {
		t.Errorf("%+v", o.Events)
	}
	w.now = w.now.Add(firstHold + time.Second) // nobody is held from before
	stateful, err := New(Config{Cell: "eu-1", Shards: []string{"s07", "s08"}, Stateful: true, Residence: w.res, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	o, err = stateful.Take(t.Context(), []Verdict{w.firmly("stays")})
	if err != nil || len(o.Events) != 2 || !strings.Contains(o.Events[1].Why, "needs a move") {
		t.Errorf("%+v, %v", o, err)
	}
	w.now = w.now.Add(firstHold + time.Second)
	o, err = w.keeper("s09").Take(t.Context(), []Verdict{w.firmly("stays")})
	if err != nil || len(o.Events) != 2 || !strings.Contains(o.Events[1].Why, "has no shard of the quarantine") {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestBudget: a stream of verdicts on all tenants of a cell for six hours.
func TestBudget(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var tenants []string
	for i := range 60 {
		tenants = append(tenants, fmt.Sprint("t", i))
	}
	w := newWorld(t, tenants...)
	var pinned []time.Time
	for end := begin.Add(6 * time.Hour); w.now.Before(end); w.now = w.now.Add(time.Duration(rng.Int64N(int64(4 * time.Minute)))) {
		var verdicts []Verdict
		for range rng.IntN(4) {
			verdicts = append(verdicts, w.firmly(tenants[rng.IntN(len(tenants))]))
		}
		for _, e := range w.take(verdicts...).Events {
			if e.What == Pinned {
				pinned = append(pinned, w.now)
			}
		}
		if rng.IntN(4) == 0 { // an operator's unpin gives nothing back
			tenant := tenants[rng.IntN(len(tenants))]
			if len(w.entry(tenant).Pins) > 0 {
				if _, err := w.res.Unpin(t.Context(), tenant, 0, w.change(fmt.Sprint("unpin ", w.now))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range pinned[PerHour:] {
		if d := pinned[i+PerHour].Sub(pinned[i]); d < time.Hour {
			t.Errorf("%d tenants were pinned within %v", PerHour+1, d)
		}
	}
	if len(pinned) < 4*PerHour || len(pinned) > 6*PerHour {
		t.Errorf("%d were pinned in six hours", len(pinned))
	}
}

// TestLate: a verdict whose line came minutes late counts as any other, and a run with nothing to do writes nothing.
func TestLate(t *testing.T) {
	w := newWorld(t, "acme")
	late := w.firmly("acme")
	w.now = w.now.Add(window - time.Second)
	if o := w.take(late); o.Quarantined != 1 || o.Suspects != 1 {
		t.Errorf("%+v", o)
	}
	clear(w.home.keys)
	for range 3 {
		w.run()
		w.take(late)
	}
	if len(w.home.keys) > 0 {
		t.Errorf("written were %v", w.home.keys)
	}
}

func TestReleased(t *testing.T) {
	w := newWorld(t, "acme")
	first := w.firmly("acme")
	w.take(first)
	w.now = w.now.Add(time.Minute)
	if _, err := w.res.Unpin(t.Context(), "acme", 0, w.change("unpin")); err != nil {
		t.Fatal(err)
	}
	o := w.take(first, w.firmly("acme")) // while it is held from before
	if !slices.Equal(whats(o.Events), []string{Released}) || o.Quarantined != 0 || len(w.entry("acme").Pins) > 0 {
		t.Errorf("%+v", o)
	}
	w.now = w.now.Add(firstHold)
	if o = w.take(w.firmly("acme")); !slices.Equal(whats(o.Events), []string{Suspected, Pinned}) || o.Quarantined != 1 {
		t.Errorf("%+v", o)
	}
	if e := w.entry("acme"); e.Epoch != 5 {
		t.Errorf("epoch %d", e.Epoch)
	}
	w.whole("acme")
}

// TestBounded fills the note with the longest of everything.
func TestBounded(t *testing.T) {
	s := &state{}
	long := func(i, n int) string { return strings.Repeat("\x01", n-4) + fmt.Sprintf("%04d", i) } // six characters each in JSON
	for i := range 3 * maxSuspects {
		for j := range 2 * maxSaid {
			v := Verdict{Environment: fmt.Sprint(j), At: begin}
			v.Tenant, v.Chance = long(i, 128), 9.87654321e-3
			for k := range maxShards {
				v.Shards = append(v.Shards, fmt.Sprintf("shard%011d", k))
			}
			s.hear(v, begin)
		}
	}
	if len(s.Suspects) != maxSuspects {
		t.Errorf("%d suspects", len(s.Suspects))
	}
	for i := range s.Suspects {
		x := &s.Suspects[i]
		x.Until, x.Times, x.Firm, x.Left = begin.Add(time.Nanosecond), 1000, true, strings.Repeat("\\", maxReason)
		for j := len(x.Said); j < maxSaid; j++ {
			x.note(said{hashed(fmt.Sprint(j)), begin.Add(time.Nanosecond), 9.87654321e-3})
		}
	}
	for i := 0; s.spent(begin.Add(time.Duration(i)*time.Hour)) == ""; i++ {
		var shards []string
		for j := range directory.MaxPins {
			shards = append(shards, fmt.Sprintf("shard%011d", j))
		}
		s.Pins = append(s.Pins, pin{Tenant: long(i, 128), Epoch: math.MaxUint64, Shards: shards, Operation: By + " " + hashed(""), Why: "its requests take down " + strings.Join(shards[:maxShards], " "),
			At: begin.Add(time.Duration(i) * time.Hour), Done: true})
	}
	for range PerHour { // and those that are gone
		s.Pins = append(s.Pins, s.Pins[0])
	}
	body, err := json.Marshal(s)
	if err != nil || len(body) > directory.MaxRecord-1000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	t.Logf("%d bytes at most, with %d pins", len(body), len(s.Pins))
}

func TestSuspectsAlone(t *testing.T) {
	w := newWorld(t, "acme")
	for i := range 3 {
		o, err := w.keeper().Take(t.Context(), []Verdict{w.firmly("acme")})
		if err != nil || o.Suspects != 1 || o.Quarantined != 0 || len(o.Events) != max(0, 1-i) {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	if _, note := w.home.keys[directory.Key{Part: "CELL#eu-1", Sort: "NOTE#quarantine"}]; !note || len(w.home.keys) != 1 {
		t.Errorf("written were %v", w.home.keys)
	}
}
