package shardkittest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// conditions goes through what may be under a key and what a write may want there, as one of several.
func conditions(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	hour := time.Now().Add(time.Hour).Unix()
	for i, c := range []struct {
		before *shardkit.Write // nil: nothing
		write  shardkit.Write
		done   bool
	}{
		{nil, shardkit.Write{Absent: true}, true},
		{nil, shardkit.Write{Was: []byte{}}, false},
		{nil, shardkit.Write{Was: []byte("x")}, false},
		{nil, shardkit.Write{Was: []byte("x"), Delete: true}, false},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Absent: true}, false},
		{&shardkit.Write{}, shardkit.Write{Absent: true}, false},
		{&shardkit.Write{Value: []byte("x"), Expires: hour}, shardkit.Write{Absent: true}, false},
		{&shardkit.Write{Value: []byte("x"), Expires: 1}, shardkit.Write{Absent: true}, true},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Was: []byte("x")}, true},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Was: []byte("x"), Delete: true}, true},
		{&shardkit.Write{Value: []byte("x"), Expires: hour}, shardkit.Write{Was: []byte("x")}, true},
		{&shardkit.Write{Value: []byte("x"), Expires: 1}, shardkit.Write{Was: []byte("x")}, false},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Was: []byte("xx")}, false},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Was: []byte{}}, false},
		{&shardkit.Write{Value: []byte("x")}, shardkit.Write{Was: []byte("y"), Delete: true}, false},
		{&shardkit.Write{}, shardkit.Write{Was: []byte{}}, true},
	} {
		key := fmt.Sprint("key", i)
		if c.before != nil {
			c.before.Key = key
			if err := s.Write(t.Context(), tenant, 1, *c.before); err != nil {
				t.Fatal(err)
			}
		}
		before := s.all(t, tenant)
		c.write.Key = key
		if !c.write.Delete {
			c.write.Value = []byte("new")
		}
		beside := shardkit.Write{Key: fmt.Sprint("beside", i)}
		for _, writes := range [][]shardkit.Write{{beside, c.write}, {c.write, beside}} {
			if c.done && writes[0].Key == key {
				break // once is enough, and the second would find the first
			}
			err := s.Write(t.Context(), tenant, 1, writes...)
			after := s.all(t, tenant)
			value, found := after[key]
			switch {
			case c.done && (err != nil || c.write.Delete == found || found && value != "new" || len(after) <= len(before)-1):
				t.Errorf("case %d: %v, and there is %q", i, err, value)
			case !c.done && (!errors.Is(err, shardkit.ErrChanged) || !maps.Equal(before, after)):
				t.Errorf("case %d: %v, and %q became %q", i, err, before, after)
			}
		}
		// Who may not write is told so first: 421 has the router look elsewhere, and nothing else does.
		if err := s.Write(t.Context(), tenant, 0, shardkit.Write{Key: key, Was: []byte("no such thing")}); !errors.Is(err, shardkit.ErrNotHeld) {
			t.Errorf("case %d: of another epoch: %v", i, err)
		}
	}
	counted(t, s, tenant)
}

// counted has writers count in one item, each by what it read.
func counted(t *testing.T, s Shard, tenant string) {
	const writers, each = 8, 5
	s.put(t, tenant, "count", "")
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range writers {
		wg.Go(func() {
			for n := 0; n < each && !t.Failed(); {
				was, _, err := s.Get(t.Context(), tenant, "count")
				if err == nil {
					more := append(was, 'x') // in place, if there is room
					err = s.Write(t.Context(), tenant, 1, shardkit.Write{Key: "count", Value: more, Was: more[:len(was):len(was)]})
				}
				switch {
				case err == nil:
					n++
				case errors.Is(err, shardkit.ErrChanged):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if count, _, err := s.Get(t.Context(), tenant, "count"); err != nil || string(count) != strings.Repeat("x", writers*each) {
		t.Errorf("%d writers counted to %d each, and together to %d, %v", writers, each, len(count), err)
	}
	t.Logf("%d writes, %d refused", writers*each, refused.Load())
}

// expires looks at what is over by the clock, which no store waits for to be swept.
func expires(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	now := time.Now().Unix()
	write := func(key string, at int64) {
		t.Helper()
		if err := s.Write(t.Context(), tenant, 1, shardkit.Write{Key: key, Value: []byte(key), Expires: at}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, keys ...string) {
		t.Helper()
		want := map[string]string{}
		for _, k := range keys {
			want[k] = k
		}
		if got := s.all(t, tenant); !maps.Equal(got, want) {
			t.Errorf("%s: there are %q, want %q", what, got, want)
		}
		for _, k := range []string{"gone", "long gone", "later", "ever"} {
			value, found, err := s.Get(t.Context(), tenant, k)
			if err != nil || found != slices.Contains(keys, k) || found != (string(value) == k) {
				t.Errorf("%s: %q is found %t as %q, %v", what, k, found, value, err)
			}
		}
	}
	write("gone", now)
	write("long gone", 1)
	write("later", now+3600)
	write("ever", 0)
	is("at first", "ever", "later")
	write("gone", now+7200) // as if it had not been
	write("later", 0)
	is("written again", "ever", "gone", "later")
	write("ever", now-1)
	write("gone", now-1)
	is("ended early", "later")
	for i := range 100 { // what is swept is only what is over
		write(fmt.Sprint("x", i), 1)
	}
	write("gone", 1<<40)
	is("swept", "gone", "later")
	// All of a transaction is dropped in the same way.
	if err := s.Write(t.Context(), tenant, 1, shardkit.Write{Key: "gone", Delete: true}, shardkit.Write{Key: "ever", Value: []byte("ever"), Absent: true}); err != nil {
		t.Fatal(err)
	}
	is("at last", "ever", "later")
}
