package dircache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

var everything = []string{"change", "change", "entry", "entry", "entry", "entry", "fresh", "pass", "pass", "snapshot", "replicate", "home", "near", "slow"}

// TestMonotone: through changes, outages, a replica that is behind and snapshots that are older, of each tenant
// no epoch is told that is lower than one before.
func TestMonotone(t *testing.T) {
	told := map[*world]map[string]uint64{}
	p := play{outages: true, events: everything}
	p.check = func(p *play, a answer) error {
		if told[p.world] == nil {
			clear(told)
			told[p.world] = map[string]uint64{}
		}
		if errors.Is(a.err, directory.ErrNotFound) && told[p.world][a.tenant] > 0 {
			return fmt.Errorf("%s is unknown, and was told at epoch %d", a.tenant, told[p.world][a.tenant])
		}
		if a.err != nil {
			return nil
		}
		if a.known.Epoch < told[p.world][a.tenant] {
			return fmt.Errorf("%s: epoch %d after %d", a.tenant, a.known.Epoch, told[p.world][a.tenant])
		}
		told[p.world][a.tenant] = a.known.Epoch
		if was := p.world.past[a.tenant][a.known.Epoch-1].entry; a.known.State != was.State || a.known.Cell != was.Cell {
			return fmt.Errorf("%s at epoch %d is %+v, and was %+v", a.tenant, a.known.Epoch, a.known.Entry, was)
		}
		return nil
	}
	p.run(t)
}

// TestMonotoneAmongMany: the same while many ask at once and readings overtake each other.
func TestMonotoneAmongMany(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld()
		c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", TTL: time.Second, Negative: time.Second})
		w.set("ann", "eu-1", directory.Active)
		var mu sync.Mutex
		highest := uint64(0)
		var wg sync.WaitGroup
		for range 3000 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			w.takes(time.Duration(rng.IntN(300)) * time.Millisecond)
			if rng.IntN(20) == 0 {
				w.set("ann", []string{"eu-1", "us-1"}[rng.IntN(2)], directory.Active)
			}
			fresh := rng.IntN(4) == 0
			wg.Go(func() {
				mu.Lock()
				before := highest
				mu.Unlock()
				k, err := c.Entry(t.Context(), "ann")
				if fresh {
					k, err = c.Fresh(t.Context(), "ann", before)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil || k.Epoch < before {
					t.Errorf("epoch %d after %d, %v", k.Epoch, before, err)
				}
				highest = max(highest, k.Epoch)
			})
		}
		wg.Wait()
		time.Sleep(5 * time.Second) // readings end
	})
}

// TestYoung: while the directory answers, whatever is told stood within the time that it may be old, and within
// its age; what is marked stale never comes from the directory itself.
func TestYoung(t *testing.T) {
	p := play{events: []string{"change", "entry", "entry", "entry", "fresh", "pass", "pass"}}
	p.check = func(p *play, a answer) error {
		limit := 5 * time.Second
		if a.err == nil && a.known.Cell == "eu-1" {
			limit = time.Minute
			if a.known.State == directory.Moving || a.known.State == directory.Placing {
				limit = Unsettled
			}
		}
		switch {
		case a.err != nil && !errors.Is(a.err, directory.ErrNotFound):
			return fmt.Errorf("%s: %v", a.tenant, a.err)
		case a.known.Age > limit || a.known.Stale:
			return fmt.Errorf("%s is told as it stood %v ago, stale %t: %+v", a.tenant, a.known.Age, a.known.Stale, a.known.Entry)
		}
		if _, stood := p.world.was(a.tenant, a.told.Add(-a.known.Age), a.told)[a.known.Epoch]; !stood {
			return fmt.Errorf("%s is told at epoch %d of %v ago, and was not", a.tenant, a.known.Epoch, a.known.Age)
		}
		return nil
	}
	p.run(t)
}

// TestLastKnown: while the directory does not answer, who is remembered or in the snapshot is told by the
// higher epoch, however old, with its true age; of the others nobody says that they do not exist.
func TestLastKnown(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("single=%t,hangs=%t", single, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Base: w, Single: single})
					ask := func(tenant string, epoch uint64, since time.Time) {
						t.Helper()
						k, err := c.Entry(t.Context(), tenant)
						if err != nil || k.Epoch != epoch || k.Stale != (time.Since(since) >= time.Minute) || k.Age != time.Since(since) {
							t.Errorf("%s is told at epoch %d, %v old, stale %t, %v; want epoch %d, %v old", tenant, k.Epoch, k.Age, k.Stale, err, epoch, time.Since(since))
						}
					}
					w.set("snapped", "eu-1", directory.Active)
					w.set("both", "eu-1", directory.Active)
					w.set("older", "eu-1", directory.Active)
					w.set("left", "eu-1", directory.Active)
					w.snapshot()
					first := time.Now()
					time.Sleep(2 * time.Minute)
					w.set("older", "eu-1", directory.Suspended)
					w.set("read", "eu-1", directory.Active)
					w.set("left", "us-1", directory.Active)
					second := time.Now()
					for tenant, epoch := range map[string]uint64{"both": 1, "older": 2, "read": 1, "left": 2} {
						if k, err := c.Entry(t.Context(), tenant); err != nil || k.Epoch != epoch {
							t.Fatalf("%s: %+v, %v", tenant, k, err)
						}
					}
					if _, err := c.Entry(t.Context(), "new"); !errors.Is(err, directory.ErrNotFound) {
						t.Fatalf("nobody is known: %v", err)
					}
					w.set("new", "eu-1", directory.Active)
					if hangs {
						w.takes(time.Hour)
					} else {
						w.turn("home", true)
					}
					for _, after := range []time.Duration{10 * time.Second, time.Minute, time.Hour, 48 * time.Hour} {
						time.Sleep(after)
						for range 5 {
							ask("snapped", 1, first)
							ask("both", 1, second)
							ask("older", 2, second)
							ask("read", 1, second)
							if k, err := c.Entry(t.Context(), "left"); err != nil || k.Cell != "us-1" {
								t.Errorf("one that left is told %+v, %v", k, err)
							}
							for _, nobody := range []string{"new", "other"} {
								if k, err := c.Entry(t.Context(), nobody); err == nil || errors.Is(err, directory.ErrNotFound) {
									t.Errorf("%s is told %+v, %v, which nobody can know", nobody, k, err)
								}
							}
						}
					}
					w.set("snapped", "eu-1", directory.Active)
					w.snapshot()
					time.Sleep(2 * time.Minute)
					ask("snapped", 2, w.taken)
					ask("older", 2, w.taken)

					w.takes(0)
					w.turn("home", false)
					time.Sleep(2 * lastPause)
					for _, tenant := range []string{"snapped", "both", "older", "read", "new"} {
						c.Entry(t.Context(), tenant) // one of them finds out
						time.Sleep(lastPause)
						k, err := c.Entry(t.Context(), tenant)
						if now, _ := w.current(tenant); err != nil || k.Stale || k.Epoch != now.Epoch {
							t.Errorf("after the outage %s is told %+v, %v", tenant, k, err)
						}
					}
				})
			})
		}
	}
}

// TestOneReading: however many ask for a tenant, whether it exists or not, it is read once, and afresh twice
// at most, since some asked when the first such reading had begun.
func TestOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set("ann", "eu-1", directory.Active)
		w.takes(50 * time.Millisecond)
		c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1"})
		ask := func(tenant string, how func(tenant string) error, want int) {
			t.Helper()
			before := w.readings()
			var wg sync.WaitGroup
			for i := range 500 {
				wg.Go(func() {
					time.Sleep(time.Duration(i%4) * 10 * time.Millisecond)
					if err := how(tenant); (err != nil) != (tenant == "nobody") {
						t.Errorf("%s: %v", tenant, err)
					}
				})
			}
			wg.Wait()
			if n := w.readings() - before; n > want || n == 0 {
				t.Errorf("500 askers for %s cause %d readings, want %d", tenant, n, want)
			}
			if w.most[tenant] > 1 {
				t.Errorf("%d readings of %s at once", w.most[tenant], tenant)
			}
		}
		entry := func(tenant string) error { _, err := c.Entry(t.Context(), tenant); return err }
		fresh := func(tenant string) error { _, err := c.Fresh(t.Context(), tenant, 1); return err }
		ask("ann", entry, 1)
		ask("nobody", entry, 1)
		ask("ann", fresh, 2)
		time.Sleep(2 * time.Minute)
		ask("ann", entry, 1)
	})
}

// TestSparing: a thousand tenants who ask for half an hour while the directory does not answer cause no more
// readings than one at a time with growing pauses, and the first failures.
func TestSparing(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for i := range 100 {
					w.set(fmt.Sprint("t", i), "eu-1", directory.Active)
				}
				w.snapshot()
				if w.turn("home", true); hangs {
					w.takes(time.Hour)
				}
				c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Base: w, Single: single})
				time.Sleep(time.Hour)
				until := time.Now().Add(30 * time.Minute)
				asked := 0
				for ; time.Now().Before(until); asked++ {
					k, err := c.Entry(t.Context(), fmt.Sprint("t", asked%100))
					if err != nil || !k.Stale {
						t.Fatalf("told %+v, %v", k, err)
					}
					if asked%10 == 0 {
						c.Entry(t.Context(), fmt.Sprint("nobody", asked))
					}
					time.Sleep(20 * time.Millisecond)
				}
				// Each gate lets three through, then one each half to whole pause: 1, 2, 4, 8, 16, 30, 30 s...
				most := 2 * (shutAfter + 6 + int(30*time.Minute/(lastPause/2)))
				if n := w.readings(); n > most || n < 10 {
					t.Errorf("single %t, hangs %t: %d questions caused %d readings, want at most %d", single, hangs, asked, n, most)
				}
				time.Sleep(5 * time.Second) // readings end
				t.Logf("single %t, hangs %t: %d questions caused %d readings", single, hangs, asked, w.readings())
			})
		}
	}
}

// TestSparingARecovery: when the directory answers again for which five thousand tenants have waited, it is asked
// by no more than so many at a time, and all of them are up to date within a minute of requests.
func TestSparingARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		const many = 5000
		for i := range many {
			w.set(fmt.Sprint("t", i), "eu-1", directory.Active)
		}
		w.snapshot()
		w.takes(200 * time.Millisecond)
		w.turn("home", true)
		c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Base: w})
		stale := 0
		round := func() {
			for i := range many {
				go c.Entry(context.Background(), fmt.Sprint("t", i))
				time.Sleep(5 * time.Second / many)
			}
		}
		time.Sleep(time.Hour)
		for range 6 {
			round()
		}
		w.turn("home", false)
		most := 0
		for range 12 {
			round()
			w.mu.Lock()
			most = max(most, w.peak)
			w.mu.Unlock()
		}
		for i := range many {
			if k, err := c.Entry(t.Context(), fmt.Sprint("t", i)); err != nil || k.Stale {
				stale++
			}
		}
		if most > RefreshesAtOnce || most < RefreshesAtOnce/2 || stale > 0 {
			t.Errorf("%d readings at once, want at most %d; %d tenants are stale after a minute", most, RefreshesAtOnce, stale)
		}
		time.Sleep(5 * time.Second)
	})
}

// TestAClockThatIsSetBack by a day makes nobody's entry good for a day.
func TestAClockThatIsSetBack(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			back := time.Duration(0)
			c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Single: single, Now: func() time.Time { return time.Now().Add(-back) }})
			w.set("ann", "eu-1", directory.Active)
			c.Entry(t.Context(), "ann")
			back = 24 * time.Hour
			w.set("ann", "eu-1", directory.Active)
			if k, err := c.Entry(t.Context(), "ann"); err != nil || k.Epoch != 2 || k.Stale || k.Age != 0 {
				t.Errorf("told %+v, %v", k, err)
			}
		})
	}
}

// TestStrangers: a hundred thousand tenants who do not exist cause a bounded number of readings, and none of
// those who do is forgotten.
func TestStrangers(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.takes(5 * time.Millisecond)
			c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Memory: 1 << 20, Single: single})
			for i := range 2000 {
				tenant := fmt.Sprint("t", i)
				w.set(tenant, "eu-1", directory.Active)
				if _, err := c.Entry(t.Context(), tenant); err != nil {
					t.Fatal(err)
				}
			}
			before, start := w.readings(), time.Now()
			var wg sync.WaitGroup
			const flood = 100_000
			askers := 200
			if single {
				askers = 1
			}
			limits := LimitsOf(single)
			var mu sync.Mutex
			unknown, refused := 0, 0
			for n := range askers {
				wg.Go(func() {
					for i := range flood / askers {
						_, err := c.Entry(t.Context(), fmt.Sprintf("nobody-%d-%d", n, i))
						mu.Lock()
						switch {
						case errors.Is(err, directory.ErrNotFound):
							unknown++
						case errors.Is(err, ErrTooMany):
							refused++
						default:
							t.Errorf("told %v", err)
						}
						mu.Unlock()
						time.Sleep(100 * time.Microsecond)
					}
				})
			}
			wg.Wait()
			most := limits.Burst + limits.AtOnce + int(limits.PerSecond*time.Since(start).Seconds()) + 1
			if n := w.readings() - before; n > most || n < limits.Burst {
				t.Errorf("single %t: %d readings in %v, want at most %d", single, n, time.Since(start), most)
			}
			if unknown == 0 || unknown+refused != flood {
				t.Errorf("%d were found unknown and %d refused", unknown, refused)
			}
			t.Logf("single %t: %d strangers caused %d readings in %v; %d were told that nobody knows", single, flood, w.readings()-before, time.Since(start), refused)
			before = w.readings()
			for i := range 2000 {
				if c.tenants.certain(fmt.Sprint("t", i)) == nil {
					t.Fatalf("tenant %d was forgotten", i)
				}
			}
			time.Sleep(time.Minute) // real ones who are new are let in again
			w.set("new", "eu-1", directory.Active)
			if _, err := c.Entry(t.Context(), "new"); err != nil {
				t.Errorf("one who signed up after the flood: %v", err)
			}
		})
	}
}

// TestFresh: what is told either has a higher epoch, or was read after it was asked for, or no reading was
// worth it; and a shard that refuses everything cannot flood the directory.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1"})
		w.set("ann", "eu-1", directory.Active)
		if _, err := c.Entry(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		// A reading is under way that began before the change. Who asks after it learns of the change.
		w.takes(40 * time.Millisecond)
		slow := slowStart{home{w}, w}
		c.home.directory = slow
		var wg sync.WaitGroup
		wg.Go(func() { c.Fresh(t.Context(), "ann", 1) })
		synctest.Wait()
		w.set("ann", "eu-1", directory.Active)
		if k, err := c.Fresh(t.Context(), "ann", 1); err != nil || k.Epoch != 2 {
			t.Errorf("after a change, told %+v, %v", k, err)
		}
		wg.Wait()

		// Changes that follow each other are each seen at once.
		for epoch := uint64(3); epoch < 20; epoch++ {
			w.set("ann", "eu-1", directory.Active)
			if k, err := c.Fresh(t.Context(), "ann", epoch-1); err != nil || k.Epoch != epoch {
				t.Errorf("after change %d, told %+v, %v", epoch, k, err)
			}
		}

		// A shard refuses two thousand tenants for two minutes, for nothing.
		for i := range 2000 {
			w.set(fmt.Sprint("t", i), "eu-1", directory.Active)
			if _, err := c.Entry(t.Context(), fmt.Sprint("t", i)); err != nil {
				t.Fatal(err)
			}
		}
		before, start := w.readings(), time.Now()
		for time.Since(start) < 2*time.Minute {
			for range 100 {
				tenant := fmt.Sprint("t", rand.IntN(2000))
				wg.Go(func() {
					if k, err := c.Fresh(t.Context(), tenant, 1); err != nil || k.Epoch != 1 {
						t.Errorf("%s: %+v, %v", tenant, k, err)
					}
				})
			}
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		l := LimitsOf(false)
		if n, most := w.readings()-before, l.Burst+l.AtOnce+int(l.PerSecond*time.Since(start).Seconds()); n > most {
			t.Errorf("%d readings in %v, want at most %d", n, time.Since(start), most)
		}
	})
}

// slowStart is a directory that reads first and answers late.
type slowStart struct {
	home
	w *world
}

func (s slowStart) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	e, err := home{s.w}.current(tenant)
	s.w.mu.Lock()
	s.w.reads++
	s.w.mu.Unlock()
	time.Sleep(40 * time.Millisecond)
	if !err {
		return e, directory.ErrNotFound
	}
	return e, ctx.Err()
}

// TestPatient: with a directory that takes its time or hangs, nobody who is known and would be served waits
// longer than Patience; who asks often does not wait at all; and reading afresh holds nobody else.
func TestPatient(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, slow := range []time.Duration{80 * time.Millisecond, 700 * time.Millisecond, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Single: single})
				w.set("often", "eu-1", directory.Active)
				w.set("rarely", "eu-1", directory.Active)
				ask := func(tenant string, most time.Duration) {
					t.Helper()
					start := time.Now()
					if k, err := c.Entry(t.Context(), tenant); err != nil || k.Epoch != 1 {
						t.Errorf("told %+v, %v", k, err)
					}
					if took := time.Since(start); took > most {
						t.Errorf("single %t, directory takes %v: %s waits %v, want at most %v", single, slow, tenant, took, most)
					}
				}
				ask("often", 0)
				ask("rarely", 0)
				w.takes(slow)
				if !single {
					go c.Fresh(context.Background(), "often", 1)
					synctest.Wait()
				}
				for minute := range 10 {
					for range 60 {
						most := time.Duration(0)
						if single || slow > c.config.LookUp {
							most = c.config.Patience
						}
						ask("often", most)
						time.Sleep(time.Second)
					}
					if minute%3 == 2 {
						ask("rarely", c.config.Patience)
					}
				}
				time.Sleep(5 * time.Second)
			})
		}
	}
}
