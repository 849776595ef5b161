package shardkittest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// between is a store in which something happens after each answer to the question whom the shard holds.
type between struct {
	shardkit.Items
	happens func()
}

func (b between) Held(ctx context.Context, tenant string) (uint64, bool, error) {
	epoch, held, err := b.Items.Held(ctx, tenant)
	b.happens()
	return epoch, held, err
}

// service writes the key that its path names, with what came with it, behind a guard.
func service(t *testing.T, items shardkit.Items) http.Handler {
	guard, err := shardkit.NewGuard(shardkit.Config{Items: items, Shard: "s01", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/")
		err := shardkit.From(r.Context()).Commit(r.Context(), w, shardkit.Answer{Status: http.StatusNoContent}, shardkit.Write{Key: key, Value: []byte(key)})
		if err != nil {
			shardkit.Fail(w, err)
		}
	}))
}

func ask(ctx context.Context, h http.Handler, tenant string, epoch uint64, key string) (status int) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+key, nil)
	r.Header.Set(shardkit.HeaderTenant, tenant)
	r.Header.Set(shardkit.HeaderEpoch, fmt.Sprint(epoch))
	r.Header.Set(shardkit.HeaderShard, "s01")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// heldBefore flips the holding exactly between the question and the write.
func heldBefore(t *testing.T, s Shard) {
	const tenant = "acme"
	for i, c := range []struct {
		before, between func()
		status          int
	}{
		{func() {}, func() {}, 421},
		{func() { s.hold(t, tenant, 3) }, func() {}, 421},
		{func() { s.hold(t, tenant, 4) }, func() {}, 204},
		{func() {}, func() { s.hold(t, tenant, 5) }, 421},
		{func() { s.release(t, tenant, 5); s.hold(t, tenant, 4) }, func() { s.release(t, tenant, 4) }, 421},
		{func() {}, func() { s.hold(t, tenant, 4) }, 421}, // what was found stands
		{func() {}, func() { s.release(t, tenant, 4); s.hold(t, tenant, 5) }, 421},
	} {
		epoch := uint64(4)
		if i == 1 {
			epoch = 2
		}
		c.before()
		before := s.all(t, tenant)
		status := ask(t.Context(), service(t, between{s.Items, c.between}), tenant, epoch, fmt.Sprint(i))
		if status != c.status {
			t.Errorf("case %d: answered %d, want %d", i, status, c.status)
		}
		if after := s.all(t, tenant); (status == 204) == maps.Equal(before, after) {
			t.Errorf("case %d: answered %d, %v became %v", i, status, before, after)
		}
	}
}

const (
	stays   = 25
	writers = 8
	// patience bounds the wait for a stay's first write, and for the first that is refused after it, counted in
	// pauses.
	patience = 5 * time.Second
	pause    = 200 * time.Microsecond // so that a store in memory is not filled without end
)

// neverUnheld has a tenant come and go, each time at a higher epoch, while writers write at the epoch
// that they last saw. Nothing may be written between two stays, or in one at the epoch of another, and
// what was acknowledged is there.
func neverUnheld(t *testing.T, s Shard) {
	const tenant = "acme"
	h := service(t, s.Items)
	var now atomic.Uint64
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	refused, ended := 0, make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				epoch := now.Load()
				key := fmt.Sprintf("%03d/%d/%d", epoch, w, n)
				status := ask(t.Context(), h, tenant, epoch, key)
				mu.Lock()
				switch status {
				case 204:
					acknowledged[key] = true
				case 421:
					refused++
				default:
					t.Errorf("answered %d", status)
				}
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	count := func(of func() int) int {
		mu.Lock()
		defer mu.Unlock()
		return of()
	}
	// until waits for one more than there were.
	until := func(what string, of func() int, were int) {
		for waited := time.Duration(0); count(of) == were && !t.Failed(); waited += pause {
			if time.Sleep(pause); waited > patience {
				t.Error(what)
			}
		}
	}
	written, rejected := func() int { return len(acknowledged) }, func() int { return refused }
	var seen []string // all that was written when the last stay had ended
	list := func() []string {
		keys, err := s.List(t.Context(), tenant, "")
		if err != nil {
			t.Error(err)
		}
		return keys
	}
	for stay := uint64(1); stay <= stays && !t.Failed(); stay++ {
		if between := list(); !slices.Equal(between, seen) {
			t.Errorf("before stay %d: %d items, and when it let go there were %d", stay, len(between), len(seen))
		}
		before := count(written)
		if err := s.Hold(tenant, stay); err != nil {
			t.Error(err)
			break
		}
		now.Store(stay)
		until(fmt.Sprintf("in stay %d nobody could write", stay), written, before)
		before = count(rejected)
		if err := s.Release(tenant, stay); err != nil {
			t.Error(err)
			break
		}
		after := list()
		until(fmt.Sprintf("after stay %d nobody was refused", stay), rejected, before)
		for _, k := range after {
			if !slices.Contains(seen, k) && !strings.HasPrefix(k, fmt.Sprintf("%03d/", stay)) {
				t.Errorf("in stay %d, %s was written", stay, k)
			}
		}
		seen = after
	}
	close(ended)
	wg.Wait()
	final := list()
	if !slices.Equal(final, seen) {
		t.Errorf("after the last stay: %d items, and when it let go there were %d", len(final), len(seen))
	}
	for k := range acknowledged {
		if !slices.Contains(final, k) {
			t.Errorf("%s was acknowledged and is not there", k)
		}
	}
	t.Logf("%d stays: %d writes acknowledged, %d refused", stays, len(acknowledged), refused)
}
