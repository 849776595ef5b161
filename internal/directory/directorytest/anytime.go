package directorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// late is a home on a line on which a write may arrive long after its sender gave it up: at any later time, also
// between two reads of a call. Records are read in any order, since a home promises nothing of several.
type late struct {
	directory.Home
	mu      sync.Mutex
	rng     *rand.Rand
	pending []directory.Batch
}

// newLate logs its seed.
func newLate(t *testing.T, home directory.Home) *late {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &late{Home: home, rng: rand.New(rand.NewPCG(seed, 0))}
}

func (l *late) roll(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// arrive lets one of the writes arrive that were given up, by chance.
func (l *late) arrive(ctx context.Context, chance int) {
	l.mu.Lock()
	if len(l.pending) == 0 || l.rng.IntN(100) >= chance {
		l.mu.Unlock()
		return
	}
	i := len(l.pending) - 1
	if l.rng.IntN(2) == 0 {
		i = l.rng.IntN(len(l.pending))
	}
	b := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	l.mu.Unlock()
	_ = l.Home.Write(ctx, b) // nobody waits for the answer
}

func (l *late) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	l.mu.Lock()
	order := l.rng.Perm(len(keys))
	l.mu.Unlock()
	records := make([]directory.Record, len(keys))
	for _, i := range order {
		l.arrive(ctx, 30)
		got, err := l.Home.Read(ctx, c, keys[i])
		if err != nil {
			return nil, err
		}
		records[i] = got[0]
	}
	return records, nil
}

func (l *late) Write(ctx context.Context, b directory.Batch) error {
	l.arrive(ctx, 20)
	switch p := l.roll(100); {
	case p < 25:
		l.mu.Lock()
		l.pending = append(l.pending, b)
		l.mu.Unlock()
		return errLost
	case p < 40:
		if err := l.Home.Write(ctx, b); err != nil {
			return err
		}
		return errLost
	}
	return l.Home.Write(ctx, b)
}

// asked is one change that an operator asks for, once or more often.
type asked struct {
	operation string
	expect    uint64
	kind      string
	do        func(expect uint64, c directory.Change) (directory.Entry, error)
}

// operators change one tenant, each time by a new change or one that was asked for at any time before.
type operators struct {
	rules
	res    *directory.Residence
	tenant string
}

// next is a new change by hand.
func (o operators) next(t *testing.T, rng *rand.Rand, operation string) asked {
	a := asked{operation: operation}
	if rng.IntN(2) == 0 {
		now, err := o.Get(t.Context(), o.tenant)
		if err != nil {
			t.Error(err)
		}
		a.expect = now.Epoch - uint64(rng.IntN(8)/7) // behind now and then
	}
	pin := fmt.Sprintf("s%02d", rng.IntN(8)+1)
	load := directory.Rate(rng.IntN(1_000_000) + 2000) // as no other
	kinds := []asked{
		{kind: "suspend", do: func(e uint64, c directory.Change) (directory.Entry, error) {
			return o.res.Suspend(t.Context(), o.tenant, e, c)
		}},
		{kind: "resume", do: func(e uint64, c directory.Change) (directory.Entry, error) {
			return o.res.Resume(t.Context(), o.tenant, e, c)
		}},
		{kind: "pin", do: func(e uint64, c directory.Change) (directory.Entry, error) {
			return o.res.Pin(t.Context(), o.tenant, []string{pin}, e, c)
		}},
		{kind: "unpin", do: func(e uint64, c directory.Change) (directory.Entry, error) {
			return o.res.Unpin(t.Context(), o.tenant, e, c)
		}},
		{kind: "resize", do: func(e uint64, c directory.Change) (directory.Entry, error) {
			return o.res.Resize(t.Context(), o.tenant, "", load, e, c)
		}},
	}
	kind := kinds[rng.IntN(len(kinds))]
	a.kind, a.do = kind.kind, kind.do
	return a
}

// line is the operation's line of the tenant's history, by a home that loses nothing; it fails when there are
// several.
func (o operators) line(t *testing.T, operation string) *directory.Logged {
	lines, err := o.Directory.History(t.Context(), o.tenant, 0, 10_000)
	if err != nil {
		t.Error(err)
	}
	var found *directory.Logged
	for i, l := range lines {
		if l.After.Operation != operation {
			continue
		}
		if found != nil {
			t.Errorf("%s is in the history at the epochs %d and %d", operation, found.After.Epoch, l.After.Epoch)
		}
		found = &lines[i]
	}
	return found
}

// work makes changes and repeats them, as one operator or several in turn. Each call has to say of the change
// what the history says, then and ever after. It returns what was refused last.
func (o operators) work(t *testing.T, rng *rand.Rand, name string, steps int) (refused []string) {
	var all []asked
	out := map[string]bool{}
	lost := -1 // the change whose answer was lost last
	for i := range steps {
		var a asked
		if lost >= 0 && rng.IntN(4) > 0 {
			a = all[lost]
		} else if len(all) == 0 || rng.IntN(2) == 0 {
			a = o.next(t, rng, fmt.Sprintf("%s-%d", name, i))
			all = append(all, a)
		} else {
			a = all[rng.IntN(len(all))]
		}
		lost = -1
		before := o.line(t, a.operation)
		if before != nil { // repeated with the epoch, or with none
			a.expect = []uint64{0, before.Before.Epoch}[rng.IntN(2)]
			if other := o.next(t, rng, a.operation); rng.IntN(4) == 0 && other.kind != a.kind {
				if got, err := other.do(0, change(a.operation)); !errors.Is(err, directory.ErrReused) {
					t.Errorf("%s was %s, and is %s now: %+v, %v", a.operation, a.kind, other.kind, got, err)
				}
				continue
			}
		}
		got, err := a.do(a.expect, change(a.operation))
		after := o.line(t, a.operation)
		out[a.operation] = false
		switch {
		case before != nil && err != nil:
			t.Errorf("%s %s, expecting %d, which was done at epoch %d: %v", a.operation, a.kind, a.expect, before.After.Epoch, err)
		case err == nil && after == nil:
			t.Errorf("%s %s: %+v, and it is not in the history", a.operation, a.kind, got)
		case err == nil:
			if diff := cmp.Diff(after.After, got); diff != "" {
				t.Errorf("%s %s (-history +answer):\n%s", a.operation, a.kind, diff)
			}
		case errors.Is(err, errLost): // nobody knows
			lost = slices.IndexFunc(all, func(b asked) bool { return b.operation == a.operation })
		case after != nil:
			t.Errorf("%s %s: %v, and it is in the history at epoch %d", a.operation, a.kind, err, after.After.Epoch)
		case errors.Is(err, directory.ErrStale), errors.Is(err, directory.ErrState):
			out[a.operation] = true
		default:
			t.Errorf("%s %s: %v", a.operation, a.kind, err)
		}
	}
	for operation, was := range out {
		if was {
			refused = append(refused, operation)
		}
	}
	return refused
}

// repeatedAnyTime has operators change a tenant at once over a line that loses answers and lets writes arrive
// late, and repeat their changes at any later time, in any order, with and without an epoch.
func repeatedAnyTime(t *testing.T, r rules) {
	for _, c := range []struct{ atOnce, steps int }{{1, 100}, {4, 25}} {
		line := newLate(t, r.home)
		d, err := directory.Open(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		h := directory.NewMemoryHolder()
		o := operators{r, directory.NewResidence(d, h, keys), fmt.Sprintf("acme-%d", c.atOnce)}
		if _, err := directory.NewResidence(r.Directory, h, keys).SignUp(t.Context(), directory.SignUp{Tenant: o.tenant, Load: 1000}, change("sign up")); err != nil {
			t.Fatal(err)
		}
		refused := make([][]string, c.atOnce)
		var wg sync.WaitGroup
		for i := range c.atOnce {
			rng := rand.New(rand.NewPCG(uint64(line.roll(1<<30)), 1))
			wg.Go(func() { refused[i] = o.work(t, rng, fmt.Sprintf("op-%d", i), c.steps) })
		}
		wg.Wait()
		for len(line.pending) > 0 {
			line.arrive(t.Context(), 100)
		}
		for _, operation := range slices.Concat(refused...) {
			if l := o.line(t, operation); l != nil {
				t.Errorf("%s was refused for good, and happened at epoch %d", operation, l.After.Epoch)
			}
		}
		now, err := r.Get(t.Context(), o.tenant)
		if err != nil || now.Epoch < 10 {
			t.Errorf("%d changes, %v: too few to say anything", now.Epoch, err)
		}
		once(t, r, o.tenant)
	}
}

// inFlight is a home whose next write arrives only between two records of a later read, of which it reads the
// last first.
type inFlight struct {
	directory.Home
	keep    bool
	pending *directory.Batch
}

func (f *inFlight) Write(ctx context.Context, b directory.Batch) error {
	if f.keep {
		f.pending = &b
		return errLost
	}
	return f.Home.Write(ctx, b)
}

func (f *inFlight) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	records := make([]directory.Record, len(keys))
	for i := range slices.Backward(keys) {
		if i == 0 && len(keys) > 1 && !f.keep && f.pending != nil {
			if err := f.Home.Write(ctx, *f.pending); err != nil {
				return nil, err
			}
			f.pending = nil
		}
		got, err := f.Home.Read(ctx, c, keys[i])
		if err != nil {
			return nil, err
		}
		records[i] = got[0]
	}
	return records, nil
}

// A change that arrives while it is being repeated is found done, as each verb's, though the repetition looked
// for what it left too early.
func repeatedInFlight(t *testing.T, r rules) {
	_, h, e := r.residence(t)
	home := &inFlight{Home: r.home}
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verbs(directory.NewResidence(d, h, keys)) {
		home.keep = true
		_, err := v.do(t.Context(), 0, change(v.name))
		wantIs(t, err, errLost)
		home.keep = false
		got, err := v.do(t.Context(), 0, change(v.name))
		if err != nil || !v.want(got) || got.Epoch != e.Epoch+1 || home.pending != nil {
			t.Fatalf("%s: %+v, %v", v.name, got, err)
		}
		e = got
	}
	once(t, r, "acme")
}

// once fails when the history of a tenant names an operation twice. A sign-up does, to turn active what it
// placed.
func once(t *testing.T, r rules, tenant string) {
	t.Helper()
	lines, err := r.Directory.History(t.Context(), tenant, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]uint64{}
	for _, l := range lines {
		e := l.After
		if first, twice := at[e.Operation]; twice && !(e.Epoch == 2 && l.Before.State == directory.Placing) {
			t.Errorf("%s: operation %q is in the history at the epochs %d and %d", tenant, e.Operation, first, e.Epoch)
		}
		at[e.Operation] = e.Epoch
	}
}
