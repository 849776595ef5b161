package directory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// turning is a home that turns the first n requests of each kind away; logs are listings of a history.
type turning struct {
	directory.Home
	mu                         sync.Mutex
	writes, reads, lists, logs int
}

func (h *turning) away(left *int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *left--; *left >= 0 {
		return fmt.Errorf("%w: throttled", directory.ErrBusy)
	}
	return nil
}

func (h *turning) Write(ctx context.Context, b directory.Batch) error {
	if err := errors.Join(ctx.Err(), h.away(&h.writes)); err != nil {
		return err
	}
	return h.Home.Write(ctx, b)
}

func (h *turning) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if err := h.away(&h.reads); err != nil {
		return nil, err
	}
	return h.Home.Read(ctx, c, keys...)
}

func (h *turning) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	left := &h.lists
	if r.Family == "LOG" {
		left = &h.logs
	}
	if err := h.away(left); err != nil {
		return nil, err
	}
	return h.Home.List(ctx, r, after, limit)
}

const always = 1 << 40

func filled(t *testing.T) (*directory.Directory, *turning) {
	home := &turning{Home: directory.NewMemory()}
	return directorytest.Fill(t, home), home
}

func ann(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", At: time.Unix(1, 0)}
}

var signUp = directory.SignUp{Tenant: "acme", Load: 1}

// A home that is busy for long is asked until the caller's deadline, and not longer.
func TestBusyUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, home := filled(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		home.writes, home.lists, home.reads = 500, 500, 500
		if _, err := d.Place(ctx, signUp, ann("patient")); err != nil {
			t.Errorf("with time left: %v", err)
		}

		home.writes = always
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		begun := time.Now() // of the bubble
		_, err := d.Place(ctx, directory.SignUp{Tenant: "late", Load: 1}, ann("late"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, directory.ErrBusy) || time.Since(begun) != 3*time.Minute {
			t.Errorf("after %v of 3 minutes: %v", time.Since(begun), err)
		}
	})
}

// Without a deadline it is asked for about a minute.
func TestBusyWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, home := filled(t)
		for name, left := range map[string]*int{"write": &home.writes, "list": &home.lists} {
			*left = always
			begun := time.Now()
			_, err := d.Place(t.Context(), signUp, ann(name))
			if took := time.Since(begun); !errors.Is(err, directory.ErrBusy) || took < 30*time.Second || took > 2*time.Minute {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
			if tries := always - *left; tries < 30 || tries > 200 { // the waits grow, to two seconds at most
				t.Errorf("%s: %d tries", name, tries)
			}
			*left = 0
		}
	})
}

// Those who were turned away together do not come again together.
func TestWaitsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, home := filled(t)
		home.writes = always
		var mu sync.Mutex
		ends := map[time.Duration]bool{}
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := d.Place(t.Context(), directory.SignUp{Tenant: fmt.Sprint("t", i), Load: 1}, ann("op"))
				mu.Lock()
				defer mu.Unlock()
				if ends[time.Since(begun)] = true; err == nil {
					t.Error("written by a home that turns everything away")
				}
			})
		}
		wg.Wait()
		if len(ends) < 15 {
			t.Errorf("20 gave up at %d different moments", len(ends))
		}
	})
}

// A sign-up that was turned away as it looked whether the tenant is there is no refusal.
func TestSignUpRepeatedWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, home := filled(t)
		full := directory.SignUp{Tenant: "full", Load: 600_000}
		res := directory.NewResidence(d, directory.NewMemoryHolder(), func(context.Context, string, string) ([]byte, error) { return []byte("key"), nil })
		for _, tenant := range []string{"full", "too"} { // no cell has room afterwards
			full.Tenant = tenant
			if _, err := res.SignUp(t.Context(), full, ann(tenant)); err != nil {
				t.Fatal(err)
			}
		}
		home.reads = 30
		if e, err := res.SignUp(t.Context(), signUp, ann("first")); err != nil || e.Epoch != 2 { // what it placed is read
			t.Errorf("epoch %d, %v", e.Epoch, err)
		}
		home.reads, home.lists, home.writes, home.logs = 30, 30, 30, 30
		if e, err := res.SignUp(t.Context(), full, ann("too")); err != nil || e.Epoch != 2 {
			t.Errorf("repeated: epoch %d, %v", e.Epoch, err)
		}
		home.reads, home.lists = 30, 30
		full.Tenant = "late"
		if _, err := res.SignUp(t.Context(), full, ann("late")); !errors.Is(err, directory.ErrNoHeadroom) {
			t.Errorf("%v, want %q", err, directory.ErrNoHeadroom)
		}
	})
}

// overlapping is a home as DynamoDB is: a write takes a while, and one that meets it on a record is turned
// away.
type overlapping struct {
	directory.Home
	takes time.Duration

	mu     sync.Mutex
	busy   map[directory.Key]bool
	turned int
}

func (h *overlapping) lock(b directory.Batch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range b.Ops {
		if h.busy[o.Key] {
			h.turned++
			return false
		}
	}
	for _, o := range b.Ops {
		h.busy[o.Key] = true
	}
	return true
}

func (h *overlapping) Write(ctx context.Context, b directory.Batch) error {
	if !h.lock(b) {
		return directory.ErrBusy
	}
	time.Sleep(h.takes)
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, o := range b.Ops {
			delete(h.busy, o.Key)
		}
	}()
	return h.Home.Write(ctx, b)
}

// 500 sign-ups at once, all for one cell whose record takes one of them at a time: whoever is refused is
// told that there is no headroom, never that the directory is busy.
func TestSignUpsContend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := &overlapping{Home: directory.NewMemory(), takes: 20 * time.Millisecond, busy: map[directory.Key]bool{}}
		d := directorytest.Fill(t, home)
		if _, err := d.CloseCell(t.Context(), "us-1", ann("close")); err != nil {
			t.Fatal(err)
		}
		const n, room = 500, 400
		errs := make([]error, n)
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, errs[i] = d.Place(t.Context(), directory.SignUp{Tenant: fmt.Sprint("t", i), Load: 700_000 / room}, ann(fmt.Sprint(i)))
			})
		}
		wg.Wait()
		placed := 0
		for i, err := range errs {
			if err == nil {
				placed++
			} else if !errors.Is(err, directory.ErrNoHeadroom) {
				t.Errorf("sign-up %d: %v", i, err)
			}
		}
		if c, err := d.Cell(t.Context(), "eu-1"); placed != room || err != nil || c.Tenants != room || c.Load != c.Limit() {
			t.Errorf("%d of %d are placed; the cell has %d tenants with %v of %v, %v", placed, room, c.Tenants, c.Load, c.Limit(), err)
		}
		t.Logf("done after %v, the home turned %d writes away", time.Since(begun), home.turned)
	})
}
