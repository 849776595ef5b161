package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func made(t rapid.TB, c Config) (*Tenants, *clock) {
	t.Helper()
	k := &clock{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	c.Now = k.now
	l, err := NewTenants(c)
	if err != nil {
		t.Fatal(err)
	}
	return l, k
}

func TestBudgeted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.SampledFrom([]float64{0, 0.2, 0.5, 1}).Draw(t, "ratio")
		floor := rapid.IntRange(0, 4).Draw(t, "floor")
		b := NewBudget(ratio, floor)
		active, repeats := 0, 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				b.Begin()
				active++
			case 2:
				if active > 0 {
					b.End()
					active--
				}
			case 3:
				may := repeats+1 <= floor || float64(repeats+1) <= ratio*float64(active)
				if got := b.Spend(); got != may {
					t.Fatalf("%d active, %d repeats out: one more granted %v, want %v", active, repeats, got, may)
				}
				if may {
					repeats++
				}
			case 4:
				if repeats > 0 {
					b.Return()
					repeats--
				}
			}
		}
	})
	// Of many at once: with 50 active and none ending, never more than 10 are out.
	b := NewBudget(Ratio, Floor)
	for range 50 {
		b.Begin()
	}
	var out, most atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				if !b.Spend() {
					continue
				}
				n := out.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				out.Add(-1)
				b.Return()
			}
		})
	}
	wg.Wait()
	if most.Load() > 10 || most.Load() == 0 {
		t.Errorf("%d repeats were out", most.Load())
	}
}

func TestRated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.5, 1, 7, 100}).Draw(t, "rate")
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		l, c := made(t, Config{Rate: rate, Burst: burst, Tenants: 64})
		begin := c.at
		var admitted []time.Duration
		names := []string{"a", "b", "c", "d", "e"}
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			// Others come and go, so that tenants are forgotten meanwhile.
			if tk, _, ok := l.Admit(rapid.SampledFrom(names).Draw(t, "other")); ok {
				tk.Release()
			}
			if tk, retry, ok := l.Admit("tenant"); ok {
				tk.Release()
				admitted = append(admitted, c.at.Sub(begin))
			} else if retry <= 0 {
				t.Fatalf("refused, and to come again after %v", retry)
			}
		}
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				most := float64(burst) + rate*(admitted[j]-admitted[i]).Seconds()
				if n := j - i + 1; float64(n) > most+1e-6 {
					t.Fatalf("%d admitted in %v", n, admitted[j]-admitted[i])
				}
			}
		}
	})
	// Who asks for no more is never refused.
	l, c := made(t, Config{Rate: 4, Burst: 1})
	for i := range 1000 {
		if _, _, ok := l.Admit("tenant"); !ok {
			t.Fatalf("request %d within the rate is refused", i)
		}
		c.at = c.at.Add(250 * time.Millisecond)
	}
}

func TestConcurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		l, _ := made(t, Config{Concurrent: most})
		out := map[string][]Ticket{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			n := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
			if held := out[n]; len(held) > 0 && rapid.Bool().Draw(t, "release") {
				held[0].Release()
				out[n] = held[1:]
				continue
			}
			tk, retry, ok := l.Admit(n)
			if ok != (len(out[n]) < most) || ok == (retry > 0) {
				t.Fatalf("with %d of %d in flight: %v, retry after %v", len(out[n]), most, ok, retry)
			}
			if ok {
				if tk.Others() != len(out[n]) {
					t.Fatalf("%d others are said to be in flight, not %d", tk.Others(), len(out[n]))
				}
				out[n] = append(out[n], tk)
			}
		}
	})
	// A request refused for what is in flight costs nothing of the rate.
	l, _ := made(t, Config{Rate: 1, Burst: 2, Concurrent: 1})
	first, _, _ := l.Admit("a")
	for range 10 {
		l.Admit("a")
	}
	first.Release()
	if _, _, ok := l.Admit("a"); !ok {
		t.Error("refusals used up the rate")
	}
}

func TestRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		l, c := made(t, Config{Rate: rate, Burst: rapid.IntRange(1, 5).Draw(t, "burst")})
		for {
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "us")) * time.Microsecond)
			_, retry, ok := l.Admit("tenant")
			if ok {
				continue
			}
			was := c.at
			c.at = was.Add(retry * 98 / 100)
			if _, _, ok := l.Admit("tenant"); ok {
				t.Fatalf("told to wait %v, and admitted after 98 %% of it", retry)
			}
			c.at = was.Add(retry + time.Microsecond)
			if _, _, ok := l.Admit("tenant"); !ok {
				t.Fatalf("told to wait %v, and refused then", retry)
			}
			return
		}
	})
	l, _ := made(t, Config{Rate: 1e-9, Burst: 1})
	l.Admit("tenant")
	if _, retry, _ := l.Admit("tenant"); retry != longestRetry {
		t.Errorf("to come again after %v", retry)
	}
}

func TestUnforgiving(t *testing.T) {
	// One place a stripe: of two tenants with one hash, the second finds no room while the first is over its limit.
	l, c := made(t, Config{Rate: 1, Burst: 10, Tenants: 64})
	s, same := stripeWith(l, 40)
	drain := func(n string) (admitted int) {
		for range 100 {
			if tk, _, ok := l.Admit(n); ok {
				admitted++
				tk.Release()
			}
		}
		return
	}
	if n := drain(same[0]); n != 10 {
		t.Fatalf("%d admitted", n)
	}
	total := 0
	for _, n := range same[1:] {
		total += drain(n)
	}
	if total != 10 {
		t.Errorf("%d requests of those who share a bucket are admitted", total)
	}
	if s.ring[0].tenant != same[0] {
		t.Error("a tenant over its limit is forgotten")
	}
	if n := drain(same[0]); n != 0 {
		t.Errorf("%d more admitted", n)
	}
	// As soon as it is as new, it makes room; what comes in its place has no burst on top of the others'.
	c.at = c.at.Add(10 * time.Second)
	if n := drain(same[1]); n != 10 || s.ring[0].tenant != same[1] {
		t.Errorf("%d admitted, of %s", n, s.ring[0].tenant)
	}
	c.at = c.at.Add(5 * time.Second)
	drain(same[2]) // among the others
	c.at = c.at.Add(5 * time.Second)
	if n := drain(same[2]); n > 5 || s.ring[0].tenant != same[2] {
		t.Errorf("%d admitted at once after a burst among the others, of %s", n, s.ring[0].tenant)
	}
	// Nor is one forgotten that has something in flight.
	l, c = made(t, Config{Rate: 1, Burst: 10, Concurrent: 1, Tenants: 64})
	s, same = stripeWith(l, 2)
	if _, _, ok := l.Admit(same[0]); !ok {
		t.Fatal("refused")
	}
	c.at = c.at.Add(time.Hour)
	if l.Admit(same[1]); s.ring[0].tenant != same[0] {
		t.Error("a tenant with a request in flight is forgotten")
	}
}

// stripeWith finds n tenants with the same hash.
func stripeWith(l *Tenants, n int) (*stripe, []string) {
	var s *stripe
	var same []string
	for i := 0; len(same) < n; i++ {
		name := fmt.Sprint("t", i)
		at := l.stripe(name)
		if s == nil {
			s = at
		}
		if at == s {
			same = append(same, name)
		}
	}
	return s, same
}

func TestBounded(t *testing.T) {
	l, _ := made(t, Config{Rate: 1, Burst: 1, Tenants: 1000})
	for i := range 20_000 {
		l.Admit(fmt.Sprint(i))
	}
	n := 0
	for i := range l.stripes {
		s := &l.stripes[i]
		if len(s.tenants) != len(s.ring) {
			t.Errorf("%d tenants in a ring of %d", len(s.tenants), len(s.ring))
		}
		n += len(s.ring)
	}
	if n != 1024 {
		t.Errorf("%d tenants are remembered", n)
	}
}

// TestUnrated: without a rate, tenants are known for as long as they have something in flight.
func TestUnrated(t *testing.T) {
	l, _ := made(t, Config{Concurrent: 2})
	var out []Ticket
	for i := range 3000 {
		tk, _, ok := l.Admit(fmt.Sprint(i % 1500))
		if !ok || tk.Others() != i/1500 {
			t.Fatalf("request %d: admitted %t, beside %d", i, ok, tk.Others())
		}
		out = append(out, tk)
	}
	known := func() (n, free int) {
		for i := range l.stripes {
			n += len(l.stripes[i].tenants)
			free += len(l.stripes[i].free)
		}
		return n, free
	}
	for round, want := range []int{1500, 0} {
		for _, tk := range out[round*1500:][:1500] {
			tk.Release()
		}
		if n, free := known(); n != want || n+free != 1500 {
			t.Errorf("after %d releases %d tenants are known, and %d buckets wait", (round+1)*1500, n, free)
		}
	}
	for i := range 1500 {
		if tk, _, ok := l.Admit(fmt.Sprint("new", i)); !ok || tk.Others() != 0 {
			t.Fatalf("a bucket that was somebody else's: admitted %t, beside %d", ok, tk.Others())
		}
	}
}

func TestPerShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		s := NewShards(most)
		out := map[string]int{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			n := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "shard")
			if out[n] > 0 && rapid.Bool().Draw(t, "release") {
				s.Release(n)
				out[n]--
				continue
			}
			ok := s.Acquire(n)
			if ok != (out[n] < most) {
				t.Fatalf("with %d of %d in flight: %v", out[n], most, ok)
			}
			if ok {
				out[n]++
			}
		}
	})
	for router, want := range map[int]int{0: 0, 1: 1, 4: 1, 1000: 250} {
		if got := PerShard(router); got != want {
			t.Errorf("%d of %d for a shard", got, router)
		}
	}
}

func TestShared(t *testing.T) {
	const seed, most = 3, 120
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for hogs := range 6 {
		s := NewShed(most)
		held := make([]int, hogs)
		for i := range 50_000 { // those who take what they can, and have requests that end now and then
			if hogs == 0 {
				break
			}
			h := rng.IntN(hogs)
			if i%10 == 0 && i < 49_000 && held[h] > 0 {
				s.Leave()
				held[h]--
			} else if s.Enter(held[h]) {
				held[h]++
			}
		}
		free := most - s.InFlight()
		if want := most / (hogs + 1); free < want-2 || free > want+2 {
			t.Errorf("%d tenants take what they can: %d of %d are left, want %d", hogs, free, most, want)
		}
		for i := range free { // those who have one each
			if !s.Enter(0) {
				t.Errorf("%d tenants take what they can: %d of %d small ones are admitted", hogs, i, free)
				break
			}
		}
		if s.Enter(0) || s.InFlight() != most {
			t.Errorf("%d in flight of %d", s.InFlight(), most)
		}
		for range most {
			s.Leave()
		}
		if s.InFlight() != 0 {
			t.Errorf("%d in flight after all left", s.InFlight())
		}
	}
}

func TestFanout(t *testing.T) {
	f := NewFanout(2)
	if !f.Enter() || !f.Enter() || f.Enter() {
		t.Error("not two at a time")
	}
	f.Leave()
	if !f.Enter() {
		t.Error("the place of one that left is not given again")
	}
}

func TestNoLimit(t *testing.T) {
	l, _ := made(t, Config{})
	shards, shed, fanout := NewShards(0), NewShed(0), NewFanout(0)
	for range 10_000 {
		if _, _, ok := l.Admit("a"); !ok || !shards.Acquire("a") || !shed.Enter(1<<30) || !fanout.Enter() {
			t.Fatal("a limit of 0 limits")
		}
	}
}

func TestBadConfig(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []Config{{Rate: -1}, {Rate: inf}, {Rate: inf - inf}, {Burst: 1}, {Rate: 1, Burst: -1}, {Concurrent: -1}, {Environments: -1}, {Tenants: -1}} {
		if _, err := NewTenants(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestTogether lets the race detector see everything at once, and holds that all is given back.
func TestTogether(t *testing.T) {
	l, err := NewTenants(Config{Rate: 1e6, Concurrent: 3, Tenants: 64})
	if err != nil {
		t.Fatal(err)
	}
	shards, shed := NewShards(2), NewShed(6)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				tk, _, ok := l.Admit(fmt.Sprint((i + g) % 200))
				if !ok {
					continue
				}
				if shed.Enter(tk.Others()) {
					if shards.Acquire("a") {
						shards.Release("a")
					}
					shed.Leave()
				}
				tk.Release()
			}
		})
	}
	wg.Wait()
	for i := range l.stripes {
		for _, b := range append(l.stripes[i].ring, l.stripes[i].others) {
			if b.inFlight != 0 {
				t.Errorf("%d requests of %q are in flight", b.inFlight, b.tenant)
			}
		}
	}
	if shed.InFlight() != 0 || shards.gates.Find("a").inside.Load() != 0 {
		t.Error("not all is given back")
	}
}

func TestNoAllocations(t *testing.T) {
	l, err := NewTenants(Config{Rate: 1000, Burst: 50, Concurrent: 10})
	if err != nil {
		t.Fatal(err)
	}
	b, shards, shed := NewBudget(Ratio, Floor), NewShards(4), NewShed(100)
	if n := testing.AllocsPerRun(1000, func() { // admitted and, when the burst is over, refused
		b.Begin()
		if tk, _, ok := l.Admit("tenant"); ok && shed.Enter(tk.Others()) && shards.Acquire("shard") && b.Spend() {
			b.Return()
			shards.Release("shard")
			shed.Leave()
			tk.Release()
		}
		b.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
