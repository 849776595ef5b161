package snapshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// watch is what a Refresher told.
type watch struct {
	mu      sync.Mutex
	taken   []uint64
	errs    []error
	unmoved int
}

func (w *watch) observe(s *Snapshot, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.errs = append(w.errs, err)
	case s != nil:
		w.taken = append(w.taken, s.Generation)
	default:
		w.unmoved++
	}
}

// told is what was told since it was asked last.
func (w *watch) told() (taken []uint64, errs []error, unmoved int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken, errs, unmoved = w.taken, w.errs, w.unmoved
	w.taken, w.errs, w.unmoved = nil, nil, 0
	return taken, errs, unmoved
}

func refresher(t *testing.T, o *object, with Opener) (*Refresher, *Holder, *watch) {
	t.Helper()
	h, w := NewHolder("eu-1"), &watch{}
	r, err := NewRefresher(RefreshConfig{Reader: o, Opener: with, Holder: h, Observe: w.observe})
	if err != nil {
		t.Fatal(err)
	}
	return r, h, w
}

func TestStartTakesTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		o.put(seal(t, plainSnapshot(t, "eu-1", 3, time.Now())))
		r, h, _ := refresher(t, o, &ring)
		if err := r.Start(t.Context(), time.Second); err != nil || h.Generation() != 3 {
			t.Errorf("generation %d, %v", h.Generation(), err)
		}
	})
}

// A start neither fails nor hangs for want of a snapshot.
func TestStartGoesOnWithout(t *testing.T) {
	for name, c := range map[string]struct {
		object *object
		opener Opener
		is     error
		waits  time.Duration
	}{
		"there is none":     {&object{}, &ring, ErrNone, 0},
		"bucket down":       {&object{down: errDown}, &ring, errDown, 0},
		"key service down":  {&object{data: seal(t, plainSnapshot(t, "eu-1", 3, epoch0))}, &keyring{key: 1, mac: 2, down: errDown}, errDown, 0},
		"bucket hangs":      {&object{hang: make(chan struct{})}, &ring, nil, time.Second},
		"another cell's":    {&object{data: seal(t, plainSnapshot(t, "eu-2", 3, epoch0))}, &ring, ErrCell, 0},
		"a week and a year": {&object{data: seal(t, plainSnapshot(t, "eu-1", 3, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).Add(-MaxAge)))}, &ring, ErrTooOld, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			if c.object.hang != nil {
				c.object.hang = make(chan struct{}) // of this bubble
			}
			r, h, _ := refresher(t, c.object, c.opener)
			begin := time.Now()
			err := r.Start(t.Context(), time.Second)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || h.Snapshot() != nil || time.Since(begin) != c.waits { // by the bubble's clock
				t.Errorf("%s: after %v: %v, %v", name, time.Since(begin), h.Snapshot(), err)
			}
			time.Sleep(getTimeout) // what hangs is given up
		})
	}
}

func TestRunFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		r, h, w := refresher(t, o, &ring)
		_ = r.Start(t.Context(), time.Second)
		go r.Run(t.Context())
		put := func(s *Snapshot) {
			o.put(seal(t, s))
			time.Sleep(Interval + time.Second)
			synctest.Wait()
		}
		for generation := uint64(1); generation <= 3; generation++ {
			if put(plainSnapshot(t, "eu-1", generation, time.Now())); h.Generation() != generation {
				t.Fatalf("generation %d, want %d", h.Generation(), generation)
			}
		}
		if taken, _, _ := w.told(); !slices.Equal(taken, []uint64{1, 2, 3}) {
			t.Errorf("took %v", taken)
		}
		// What is refused leaves what is there, is read once, and is told of each time.
		put(plainSnapshot(t, "eu-1", 2, time.Now()))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, errs, _ := w.told(); h.Generation() != 3 || len(errs) < 2 || !errors.Is(errs[0], ErrOlder) || !errors.Is(errs[len(errs)-1], ErrOlder) {
			t.Errorf("an older one was put: generation %d, %v", h.Generation(), errs)
		}
		// That is told also after the bucket was down for a while.
		away := func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.down = err
		}
		away(errDown)
		time.Sleep(time.Minute)
		away(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, errs, unmoved := w.told(); len(errs) == 0 || !errors.Is(errs[len(errs)-1], ErrOlder) || unmoved > 0 {
			t.Errorf("an older one was there, and the bucket away: %v, %d times nothing", errs, unmoved)
		}
		// A bucket that is down for hours takes nothing away, and age tells.
		away(errDown)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		_, errs, _ := w.told()
		if _, _, ok := h.Entry("acme"); !ok || len(errs) == 0 || !errors.Is(errs[len(errs)-1], errDown) {
			t.Errorf("after an outage: %t, %d errors", ok, len(errs))
		}
		if age, ok := h.Age(time.Now()); !ok || age < 6*time.Hour {
			t.Errorf("age %v, %t", age, ok)
		}
		away(nil)
		if put(plainSnapshot(t, "eu-1", 9, time.Now())); h.Generation() != 9 {
			t.Errorf("generation %d after the outage", h.Generation())
		}
		w.told()
		time.Sleep(10 * Interval)
		synctest.Wait()
		if taken, errs, unmoved := w.told(); unmoved < 9 || len(errs) > 0 || len(taken) > 0 {
			t.Errorf("while nothing changed: took %v, %v, %d times nothing", taken, errs, unmoved)
		}
	})
}

// A snapshot from the future will do later: it is read again.
func TestClocksAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		o.put(seal(t, plainSnapshot(t, "eu-1", 1, time.Now().Add(MaxSkew+time.Minute))))
		r, h, _ := refresher(t, o, &ring)
		if err := r.Start(t.Context(), time.Second); !errors.Is(err, ErrFuture) {
			t.Errorf("from the future: %v", err)
		}
		go r.Run(t.Context())
		time.Sleep(time.Minute + again)
		synctest.Wait()
		if h.Generation() != 1 {
			t.Error("its time has come, and it is not taken")
		}
	})
}

// What is held is replaced by what is newer, though the keeper's clock has fallen behind; only a start wants a
// young one.
func TestAgeIsForStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		o.put(seal(t, plainSnapshot(t, "eu-1", 1, time.Now())))
		r, h, _ := refresher(t, o, &ring)
		if err := r.Start(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		o.put(seal(t, plainSnapshot(t, "eu-1", 2, time.Now().Add(-MaxAge-time.Hour))))
		go r.Run(t.Context())
		time.Sleep(2 * Interval)
		synctest.Wait()
		if h.Generation() != 2 {
			t.Errorf("generation %d is held", h.Generation())
		}
	})
}

func TestBesideTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		o.put(seal(t, plainSnapshot(t, "eu-1", 1, time.Now())))
		r, h, _ := refresher(t, o, &ring)
		if err := r.Start(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		invoke := func() time.Duration {
			begin := time.Now()
			r.Beside(t.Context())
			return time.Since(begin) // by the bubble's clock
		}
		o.gets.Store(0)
		for range 100 {
			if took := invoke(); took != 0 {
				t.Fatalf("an invocation waited %v", took)
			}
		}
		if n := o.gets.Load(); n != 0 {
			t.Errorf("%d looks within the interval", n)
		}
		o.put(seal(t, plainSnapshot(t, "eu-1", 2, time.Now())))
		time.Sleep(Interval)
		for range 100 {
			invoke()
		}
		synctest.Wait()
		if n := o.gets.Load(); n != 1 || h.Generation() != 2 {
			t.Errorf("%d looks when one was due, generation %d", n, h.Generation())
		}

		// The bucket hangs: invocations go on, and one in an interval waits a moment once it is overdue.
		o.mu.Lock()
		o.hang = make(chan struct{})
		o.mu.Unlock()
		begin, waits := time.Now(), map[time.Duration]int{}
		for range 1200 {
			waits[invoke()]++
			time.Sleep(time.Second)
		}
		most := int(time.Since(begin)/Interval) - overdue
		if len(waits) != 2 || waits[patience] == 0 || waits[patience] > most {
			t.Errorf("in %v of an outage invocations waited %v, want at most %d of %v", time.Since(begin), waits, most, patience)
		}
		if h.Generation() != 2 {
			t.Error("the outage took the snapshot away")
		}
		o.mu.Lock()
		close(o.hang)
		o.hang = nil
		o.mu.Unlock()
		o.put(seal(t, plainSnapshot(t, "eu-1", 3, time.Now())))
		time.Sleep(Interval)
		invoke()
		synctest.Wait()
		if h.Generation() != 3 {
			t.Errorf("generation %d after the outage", h.Generation())
		}
	})
}

// TestBesideAfterAClockThatWasSetBack: the next look is not as far away as the clock was wrong.
func TestBesideAfterAClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{}
		o.put(seal(t, plainSnapshot(t, "eu-1", 1, time.Now())))
		ahead := time.Hour
		h := NewHolder("eu-1")
		r, err := NewRefresher(RefreshConfig{Reader: o, Opener: &ring, Holder: h, Now: func() time.Time { return time.Now().Add(ahead) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		ahead = 0
		o.put(seal(t, plainSnapshot(t, "eu-1", 2, time.Now())))
		o.gets.Store(0)
		for range 100 {
			r.Beside(t.Context())
			synctest.Wait()
		}
		if n := o.gets.Load(); n != 1 || h.Generation() != 2 {
			t.Errorf("%d looks, generation %d", n, h.Generation())
		}
	})
}

func TestLargeSnapshotsAreReadLessOften(t *testing.T) {
	o := &object{}
	r, h, _ := refresher(t, o, &ring)
	if got := r.interval(); got != Interval {
		t.Errorf("without a snapshot: %v", got)
	}
	s := plainSnapshot(t, "eu-1", 1, epoch0)
	s.Entries.data = make([]byte, 3*perInterval)
	if err := h.Take(s); err != nil {
		t.Fatal(err)
	}
	if got := r.interval(); got != 4*Interval {
		t.Errorf("of %d bytes: %v", len(s.Entries.data), got)
	}
}

func TestRefresherNeedsItsParts(t *testing.T) {
	for _, c := range []RefreshConfig{{}, {Reader: &object{}, Opener: &ring}, {Reader: &object{}, Opener: &ring, Holder: NewHolder("eu-1"), Every: -1}} {
		if _, err := NewRefresher(c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// faultyReader panics when it is first asked.
type faultyReader struct {
	*object
	asked bool
}

func (f *faultyReader) Get(ctx context.Context, unless string) ([]byte, string, error) {
	if !f.asked {
		f.asked = true
		panic("a fault of the adapter")
	}
	return f.object.Get(ctx, unless)
}

// TestALookThatPanics has failed, in a goroutine where a panic would end the process, and the next look takes what is
// there.
func TestALookThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &faultyReader{object: &object{}}
		o.put(seal(t, plainSnapshot(t, "eu-1", 3, time.Now())))
		h, w := NewHolder("eu-1"), &watch{}
		r, err := NewRefresher(RefreshConfig{Reader: o, Opener: &ring, Holder: h, Observe: w.observe})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "a fault of the adapter") {
			t.Errorf("started with %v", err)
		}
		if err := r.Start(t.Context(), time.Second); err != nil || h.Generation() != 3 {
			t.Errorf("the next look: generation %d, %v", h.Generation(), err)
		}
	})
}
