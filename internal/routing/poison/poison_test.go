package poison

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time       { return c.at }
func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

// watched is a Watch over two shards that answered 400 other tenants five times each.
func watched(lambda bool) (*Watch, *clock, *[]Verdict) {
	c := &clock{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	var told []Verdict
	w := New(Config{Now: c.now, Lambda: lambda, OnVerdict: func(v Verdict) { told = append(told, v) }})
	for range 5 {
		others(w, "a", "b")
	}
	return w, c, &told
}

// otherNames are tenants.
var otherNames = func() (names []string) {
	for i := range 500 {
		names = append(names, fmt.Sprint("other", i))
	}
	return names
}()

// others are answered by each of the shards: 400 tenants, none of which a shard counts together with bad.
func others(w *Watch, shards ...string) {
	bad, n := slotOf(w.hash("bad")), 0
	for _, name := range otherNames {
		if slotOf(w.hash(name)) == bad {
			continue
		}
		if n++; n > 400 {
			return
		}
		for _, s := range shards {
			w.Observe(name, s, false)
		}
	}
}

// down is a request of the tenant that takes a shard down, which then answers the others again.
func down(w *Watch, c *clock, tenant string, shards ...string) {
	for _, s := range shards {
		c.pass(time.Second)
		w.Observe(tenant, s, true)
		others(w, s)
	}
}

func TestFound(t *testing.T) {
	for _, f := range []struct {
		lambda bool
		downs  int
		hold   time.Duration
		firm   bool
	}{{false, 4, 5 * time.Minute, true}, {true, 2, time.Minute, false}} {
		w, c, told := watched(f.lambda)
		for i := range 10 {
			if got := w.Suspect("bad"); got != (i >= f.downs) {
				t.Errorf("lambda %v, after %d downs: suspect %v", f.lambda, i, got)
			}
			down(w, c, "bad", []string{"a", "b"}[i%2])
		}
		if w.Suspect("other1") {
			t.Error("a tenant that only was answered is suspected")
		}
		if len(*told) != 1 {
			t.Fatalf("verdicts %+v", *told)
		}
		v := (*told)[0]
		if share := 1.0 / 400; v.Chance > math.Pow(share, float64(v.Downs)) {
			// Of all downs there were, each met the one of 400, but the first is not counted.
			t.Errorf("lambda %v: chance %v for %d downs", f.lambda, v.Chance, v.Downs)
		}
		want := Verdict{Tenant: "bad", Shards: []string{"a", "b"}, Downs: f.downs - 1, Chance: v.Chance, Firm: f.firm, Until: v.Until}
		if !slices.Equal(v.Shards, want.Shards) || v.Tenant != want.Tenant || v.Downs != want.Downs || v.Firm != want.Firm || v.Repeats != 0 {
			t.Errorf("verdict %+v, want %+v", v, want)
		}
		if held := c.at.Sub(v.Until) + f.hold; held < 0 || held > 10*time.Second {
			t.Errorf("held until %v, at %v", v.Until, c.at)
		}
	}
}

// TestTwoMembers: whatever goes down under a tenant on one member, and whatever else happens to others, only
// a second member makes it a suspect.
func TestTwoMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, c, told := watched(rapid.Bool().Draw(t, "lambda"))
		for range rapid.IntRange(1, 12).Draw(t, "downs") {
			if rapid.Bool().Draw(t, "another's") {
				down(w, c, "other7", "b")
			} else {
				down(w, c, "bad", "a")
			}
			w.Observe("bad", "b", false)
		}
		if len(*told) > 0 {
			t.Fatalf("verdict %+v", *told)
		}
	})
}

// TestOnce: a shard that is down, and answers nobody, counts once.
func TestOnce(t *testing.T) {
	for _, lambda := range []bool{false, true} {
		w, c, told := watched(lambda)
		w.Observe("bad", "a", true) // the record is opened for this one
		w.Observe("other3", "b", true)
		for i := range 100 {
			c.pass(time.Second)
			for _, s := range []string{"a", "b"} {
				w.Observe("bad", s, true)
				if i < 50 {
					w.Observe("other3", s, true)
				} else {
					w.Observe("bad", s, false) // an own answer is no sign that others are served
				}
			}
		}
		if len(*told) > 0 {
			t.Errorf("lambda %v: two shards that are down: %+v", lambda, *told)
		}
		// Nor do several failures at once, though somebody was answered in between.
		w, c, _ = watched(lambda)
		c.pass(time.Second)
		for _, s := range []string{"a", "b", "b", "b", "a"} {
			w.Observe("bad", s, true)
			c.pass(time.Millisecond)
			w.Observe("other3", s, false)
		}
		r := w.stripe(w.hash("bad")).records["bad"]
		if a, b := w.shards.Find("a").total(), w.shards.Find("b").total(); a != (tally{1, 2}) || b != (tally{1, 3}) {
			t.Errorf("lambda %v: episodes and failures of a %v, of b %v", lambda, a, b)
		}
		if r.n != 2 || r.members[0].downs != 0 || r.members[1].downs != 1 {
			t.Errorf("lambda %v: downs %+v", lambda, r.members[:r.n])
		}
	}
}

// TestLately: what happened to others in the last minutes makes the same downs less telling, and what happened
// before does not.
func TestLately(t *testing.T) {
	for _, c := range []struct {
		ago  time.Duration
		more bool
	}{{time.Second, true}, {9 * time.Minute, true}, {21 * time.Minute, false}} {
		w, k, told := watched(false)
		for i := range 60 {
			down(w, k, fmt.Sprint("other", i), "a", "b")
		}
		k.pass(c.ago)
		down(w, k, "other99", "a", "b")
		n := 0
		for ; len(*told) == 0 && n < 50; n++ {
			down(w, k, "bad", []string{"a", "b"}[n%2])
		}
		if c.more != (n > 5) {
			t.Errorf("found after %d downs, %v after others had theirs", n, c.ago)
		}
	}
}

// TestAlone: a tenant that nobody shares a shard with, or hardly anybody, is not suspected.
func TestAlone(t *testing.T) {
	for _, lambda := range []bool{false, true} {
		c := &clock{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
		w := New(Config{Now: c.now, Lambda: lambda, OnVerdict: func(v Verdict) { t.Errorf("verdict %+v", v) }})
		for i := range 1000 {
			c.pass(time.Second)
			s := []string{"a", "b"}[i%2]
			for range 9 {
				w.Observe("whale", s, false)
			}
			if i%10 == 0 {
				w.Observe("minnow", s, true) // nine tenths of the requests are the whale's, and of the failures
			} else {
				w.Observe("whale", s, true)
			}
			w.Observe("minnow", s, false)
		}
	}
}

// TestCrowd: when a crash breaks many requests at once, each of them had part in it, and counts less.
func TestCrowd(t *testing.T) {
	w, c, told := watched(false)
	victims := 0
	for i := range 30 {
		s := []string{"a", "b"}[i%2]
		c.pass(time.Second)
		for j := range 40 { // in any order: the guilty one is in the middle
			tenant := fmt.Sprint("other", (i*40+j)%400)
			if j == 20 {
				tenant = "bad"
			}
			w.Observe(tenant, s, true)
		}
		others(w, s)
		if i < 5 && w.Suspect("bad") {
			t.Errorf("found after %d episodes of 40 requests each, as if it had been alone in them", i+1)
		}
	}
	for _, v := range *told {
		if v.Tenant != "bad" {
			victims++
		}
	}
	if victims > 0 || !w.Suspect("bad") {
		t.Errorf("%d victims, and the guilty one is found: %v", victims, w.Suspect("bad"))
	}
}

// TestChance holds the bound against the exact chance, by enumeration of the binomial distribution.
func TestChance(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for _, p := range []float64{0.001, 0.01, 0.1, 0.5, 0.9} {
			tailOf, term := make([]float64, n+2), math.Pow(1-p, float64(n))
			pmf := make([]float64, n+1)
			for x := 0; x <= n; x++ {
				pmf[x] = term
				term *= float64(n-x) / float64(x+1) * p / (1 - p)
			}
			for x := n; x >= 0; x-- {
				tailOf[x] = tailOf[x+1] + pmf[x]
				if got := tail(float64(n), float64(x), float64(n)*p); got < tailOf[x]*(1-1e-9) || got > 1 {
					t.Fatalf("%d or more of %d at %v: %v, exactly %v", x, n, p, got, tailOf[x])
				}
			}
		}
	}
	if got := tail(0, 0, 0); got != 1 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestRare asks for what the rule promises whatever the shares and the shards' own failures are: episodes
// that hit tenants by their share make hardly anybody a suspect, and nobody by a firm verdict.
func TestRare(t *testing.T) {
	const seed, attempts = 21, 400_000
	shards := []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}
	t.Logf("seed %d; %d attempts each", seed, attempts)
	for _, failing := range []float64{0.001, 0.01, 0.2} {
		for _, lambda := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 0))
			c := &clock{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
			verdicts, firm := 0, 0
			w := New(Config{Now: c.now, Lambda: lambda, OnVerdict: func(v Verdict) {
				verdicts++
				if v.Firm {
					firm++
				}
			}})
			for range attempts {
				c.pass(time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond)))
				tenant := int(200 * math.Pow(rng.Float64(), 3)) // the first of 200 has a sixth of the load
				w.Observe(otherNames[tenant], shards[(tenant+rng.IntN(2))%8], rng.Float64() < failing)
			}
			t.Logf("%.1f %% fail, lambda %v: %d verdicts, %d firm", 100*failing, lambda, verdicts, firm)
			if firm > 0 || verdicts > attempts/20_000 {
				t.Errorf("%.1f %% fail, lambda %v: %d verdicts on innocent tenants, %d firm", 100*failing, lambda, verdicts, firm)
			}
		}
	}
}

func TestExpires(t *testing.T) {
	w, c, told := watched(false)
	find := func() Verdict {
		t.Helper()
		n := len(*told)
		for i := 0; len(*told) == n; i++ {
			if i > 10 {
				t.Fatal("not found")
			}
			down(w, c, "bad", []string{"a", "b"}[i%2])
		}
		return (*told)[n]
	}
	first := find()
	c.at = first.Until.Add(-1)
	if !w.Suspect("bad") {
		t.Error("the verdict ends too early")
	}
	c.at = first.Until
	if w.Suspect("bad") || w.held.Load() != 0 {
		t.Error("the verdict does not end")
	}
	// On probation one down is enough, and the verdict is twice as long.
	down(w, c, "bad", "a")
	if len(*told) != 2 {
		t.Fatalf("a tenant on probation takes a shard down: %+v", *told)
	}
	second := (*told)[1]
	if d := second.Until.Sub(c.at); d < 9*time.Minute || d > 10*time.Minute || second.Repeats != 1 || !second.Firm {
		t.Errorf("held for %v, repeats %d", d, second.Repeats)
	}
	for range 10 {
		c.at = (*told)[len(*told)-1].Until
		down(w, c, "bad", "a")
	}
	if last := (*told)[len(*told)-1]; last.Until.Sub(c.at) > time.Hour || last.Until.Sub(c.at) < 59*time.Minute {
		t.Errorf("the longest verdict is %v", last.Until.Sub(c.at))
	}
	// A tenant that was mended is as good as any after a quiet time.
	c.at = (*told)[len(*told)-1].Until.Add(window + time.Second)
	n := len(*told)
	down(w, c, "bad", "a")
	if len(*told) != n || w.Suspect("bad") {
		t.Error("one down after a quiet time is a verdict")
	}
}

func TestHeld(t *testing.T) {
	w, c, told := watched(true)
	w.Hold("acme", c.at.Add(-time.Second))
	if w.Suspect("acme") {
		t.Error("held until a time that is over")
	}
	w.Hold("acme", c.at.Add(time.Minute))
	w.Hold("acme", c.at.Add(time.Second))
	c.pass(time.Minute - 1)
	if !w.Suspect("acme") || w.Suspect("zeta") {
		t.Error("not held, or the wrong one")
	}
	c.pass(1)
	if w.Suspect("acme") || len(*told) > 0 {
		t.Error("held too long, or told")
	}
}

func TestBounded(t *testing.T) {
	w, c, _ := watched(false)
	for _, s := range []string{"a", "b", "a", "b", "a"} {
		down(w, c, "bad", s)
	}
	for i := range 8_000 {
		c.pass(time.Millisecond * 20)
		w.Observe("other1", "a", false)
		w.Observe(fmt.Sprint("t", i), "a", true)
	}
	records, held := 0, 0
	for i := range w.stripes {
		records += len(w.stripes[i].records)
		for _, r := range w.stripes[i].records {
			if r.until != 0 {
				held++
			}
		}
	}
	if records != stripes*perStripe || int64(held) != w.held.Load() {
		t.Errorf("%d records, %d held of %d", records, held, w.held.Load())
	}
	if c.pass(-120 * time.Second); !w.Suspect("bad") {
		t.Error("a verdict is forgotten for records without one")
	}
	for i := range 5000 {
		w.Observe("other1", fmt.Sprint("shard", i), false)
	}
	w.Observe("other1", "beyond", true) // nobody remembers
}

// TestTogether lets the race detector see everything at once, and holds that every episode has its failures.
func TestTogether(t *testing.T) {
	w := New(Config{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				tenant, shard := fmt.Sprint("t", (i*7+g)%50), fmt.Sprint("s", i%3)
				w.Observe(tenant, shard, (i+g)%11 == 0)
				w.Suspect(tenant)
				if i%100 == 0 {
					w.Hold(tenant, time.Now().Add(time.Minute))
				}
			}
		})
	}
	wg.Wait()
	var all uint64
	for i := range 3 {
		s := w.shards.Find(fmt.Sprint("s", i))
		all += s.all.Load()
		if n := s.total(); n.failures < n.episodes || n.episodes == 0 {
			t.Errorf("%+v", n)
		}
	}
	if all != 8000 {
		t.Errorf("%d attempts are counted", all)
	}
}

func TestNoAllocations(t *testing.T) {
	w, c, _ := watched(false)
	for range 3 {
		down(w, c, "bad", "a", "b")
	}
	if n := testing.AllocsPerRun(100, func() {
		w.Observe("other1", "a", false)
		w.Observe("bad", "a", true) // one more for a tenant that is known
		w.Suspect("other1")
		w.Suspect("bad")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	w := New(Config{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		shards := []string{"s01", "s02", "s03", "s04"}
		for i := 0; pb.Next(); i++ {
			w.Suspect("tenant")
			w.Observe("tenant", shards[i%4], false)
		}
	})
}
