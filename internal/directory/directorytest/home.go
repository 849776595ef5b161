package directorytest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
)

// Home runs every suite on a kind of home: the records, the rules above them, and the Store. open gives
// an empty home; it is called once for each test.
func Home(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	t.Run("Home", func(t *testing.T) { Records(t, open) })
	t.Run("Store", func(t *testing.T) {
		Run(t, func(t *testing.T) directory.Store { return Fill(t, open(t)).Store("test") })
	})
	t.Run("Directory", func(t *testing.T) { Directory(t, open) })
}

// Records runs the suite of directory.Home alone.
func Records(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, homeSuite)
	}{
		{"ReadWhatIsNotThere", readNothing},
		{"PutThenRead", putThenRead},
		{"PutsKeepCounters", putsKeepCounters},
		{"PutOfAnyVersion", putOfAnyVersion},
		{"AllOrNothing", allOrNothing},
		{"ConflictNamesEveryCondition", conflictNamesEvery},
		{"RepetitionFindsItself", repetitionFindsItself},
		{"CountersStayInBounds", countersStayInBounds},
		{"CountersAtOnce", countersAtOnce},
		{"ManyCounters", manyCounters},
		{"OneBatchWins", oneBatchWins},
		{"BatchesThatAreNone", badBatches},
		{"KeysOfEveryKind", keysOfEveryKind},
		{"NearTheLargest", nearTheLargest},
		{"ListByPart", listByPart},
		{"ListByIndex", listByIndex},
		{"ListFollowsTheIndex", listFollowsIndex},
		{"ListRefuses", listRefuses},
		{"Feed", feed},
		{"FeedRefuses", feedRefuses},
		{"SharesNoMemory", recordsShareNoMemory},
		{"CancelledContext", homeCancelled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, homeSuite{open(t)}) })
	}
}

type homeSuite struct{ directory.Home }

// empty treats what a home may give back as nil or empty alike.
var empty = cmpopts.EquateEmpty()

func (h homeSuite) write(t *testing.T, operation string, ops ...directory.Op) {
	t.Helper()
	if err := h.Write(t.Context(), directory.Batch{Operation: operation, Ops: ops}); err != nil {
		t.Fatalf("write %s: %v", operation, err)
	}
}

// refused fails unless the batch is refused by the conditions of these operations.
func (h homeSuite) refused(t *testing.T, operation string, ops []directory.Op, failed ...int) *directory.Conflict {
	t.Helper()
	err := h.Write(t.Context(), directory.Batch{Operation: operation, Ops: ops})
	var conflict *directory.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("write %s: %v, want a conflict", operation, err)
	}
	var got []int
	for _, f := range conflict.Failed {
		got = append(got, f.Op)
		if f.Key != ops[f.Op].Key {
			t.Errorf("operation %d failed with key %v, want %v", f.Op, f.Key, ops[f.Op].Key)
		}
		if diff := cmp.Diff(h.read(t, f.Key), f.Have, empty); diff != "" {
			t.Errorf("what stood in the way of operation %d (-want +got):\n%s", f.Op, diff)
		}
	}
	if diff := cmp.Diff(failed, got); diff != "" {
		t.Fatalf("operations that failed (-want +got):\n%s", diff)
	}
	return conflict
}

func (h homeSuite) read(t *testing.T, key directory.Key) directory.Record {
	t.Helper()
	records, err := h.Read(t.Context(), directory.Strong, key)
	if err != nil || len(records) != 1 {
		t.Fatalf("read %v: %d records, %v", key, len(records), err)
	}
	return records[0]
}

func (h homeSuite) stands(t *testing.T, want directory.Record) {
	t.Helper()
	if diff := cmp.Diff(want, h.read(t, want.Key), empty); diff != "" {
		t.Fatalf("record that stands (-want +got):\n%s", diff)
	}
}

func key(part, sort string) directory.Key { return directory.Key{Part: part, Sort: sort} }

func readNothing(t *testing.T, h homeSuite) {
	h.stands(t, directory.Record{Key: key("p", "ENTRY")})
	h.write(t, "op", directory.Put(key("p", "ENTRY"), 0, []byte("1")))
	keys := []directory.Key{key("q", "ENTRY"), key("p", "ENTRY"), key("p", "LOG")}
	for _, c := range []directory.Consistency{directory.Strong, directory.Relaxed} {
		records, err := h.Read(t.Context(), c, keys...)
		if err != nil || len(records) != 3 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		for i, r := range records {
			if r.Key != keys[i] || (r.Version > 0) != (i == 1) && c == directory.Strong {
				t.Errorf("record %d is %v with version %d", i, r.Key, r.Version)
			}
		}
	}
	if records, err := h.Read(t.Context(), directory.Strong); err != nil || len(records) != 0 {
		t.Errorf("no keys: %d records, %v", len(records), err)
	}
}

func putThenRead(t *testing.T, h homeSuite) {
	k := key("p", "ENTRY")
	h.write(t, "op-1", directory.Put(k, 0, []byte(`{"a":1}`), "one", "two"))
	h.stands(t, directory.Record{Key: k, Version: 1, Operation: "op-1", Body: []byte(`{"a":1}`), Index: [2]string{"one", "two"}})
	h.write(t, "op-2", directory.Put(k, 1, []byte(`{}`)))
	h.stands(t, directory.Record{Key: k, Version: 2, Operation: "op-2", Body: []byte(`{}`)})
}

func putsKeepCounters(t *testing.T, h homeSuite) {
	k := key("p", "CELL")
	first := directory.Put(k, 0, []byte(`1`), "one")
	first.Deltas = []directory.Delta{{Counter: "load", By: 5, Max: 10}}
	h.write(t, "op-1", first)
	h.write(t, "op-2", directory.Put(k, 1, []byte(`2`), "two"))
	h.write(t, "op-3", directory.Require(k, 2, directory.Delta{Counter: "load", By: -2, Max: 10}, directory.Delta{Counter: "shard/s01", By: 7, Max: 7}))
	h.stands(t, directory.Record{
		Key: k, Version: 2, Operation: "op-2", Body: []byte(`2`), Index: [2]string{"two", ""},
		Counters: map[string]int64{"load": 3, "shard/s01": 7},
	})
}

func putOfAnyVersion(t *testing.T, h homeSuite) {
	k := key("p", "SLOT")
	h.refused(t, "op-1", []directory.Op{directory.Put(k, directory.AnyVersion, []byte(`1`))}, 0)
	h.write(t, "op-2", directory.Put(k, 0, []byte(`2`)))
	h.write(t, "op-3", directory.Put(k, directory.AnyVersion, []byte(`3`)))
	h.stands(t, directory.Record{Key: k, Version: 2, Operation: "op-3", Body: []byte(`3`)})
}

func allOrNothing(t *testing.T, h homeSuite) {
	a, b, c := key("p", "A"), key("p", "B"), key("q", "C")
	h.write(t, "op-1", directory.Put(a, 0, []byte(`1`)), directory.Put(c, 0, []byte(`1`)))
	h.refused(t, "op-2", []directory.Op{
		directory.Put(a, 1, []byte(`2`)), directory.Put(b, 0, []byte(`2`)),
		directory.Require(c, 7, directory.Delta{Counter: "n", By: 1, Max: 9}),
	}, 2)
	h.stands(t, directory.Record{Key: a, Version: 1, Operation: "op-1", Body: []byte(`1`)})
	h.stands(t, directory.Record{Key: b})
	h.stands(t, directory.Record{Key: c, Version: 1, Operation: "op-1", Body: []byte(`1`)})
}

func conflictNamesEvery(t *testing.T, h homeSuite) {
	a, b, c := key("p", "A"), key("p", "B"), key("q", "C")
	put := directory.Put(a, 0, []byte(`1`), "x", "y")
	put.Deltas = []directory.Delta{{Counter: "n", By: 3, Max: 3}}
	h.write(t, "op-1", put)
	h.refused(t, "op-2", []directory.Op{
		directory.Put(b, 3, nil), directory.Require(a, directory.AnyVersion, directory.Delta{Counter: "n", By: 1, Max: 3}),
		directory.Put(c, 0, []byte(`1`)),
	}, 0, 1)
	h.refused(t, "op-3", []directory.Op{directory.Put(a, 2, []byte(`1`))}, 0)
	h.refused(t, "op-4", []directory.Op{directory.Put(a, 0, []byte(`1`))}, 0)
	h.refused(t, "op-5", []directory.Op{directory.Require(b, directory.AnyVersion)}, 0)
	h.write(t, "op-6", directory.Require(b, 0), directory.Put(c, 0, []byte(`1`)))
}

func repetitionFindsItself(t *testing.T, h homeSuite) {
	ops := []directory.Op{directory.Put(key("p", "A"), 0, []byte(`1`)), directory.Put(key("p", "B"), 0, []byte(`1`))}
	h.write(t, "op-1", ops...)
	for _, f := range h.refused(t, "op-1", ops, 0, 1).Failed {
		if f.Have.Operation != "op-1" || f.Have.Version != 1 {
			t.Errorf("found version %d by %q, want 1 by op-1", f.Have.Version, f.Have.Operation)
		}
	}
}

func countersStayInBounds(t *testing.T, h homeSuite) {
	k := key("p", "CELL")
	h.write(t, "op-0", directory.Put(k, 0, []byte(`1`)))
	move := func(by, low, high int64) []directory.Op {
		return []directory.Op{directory.Require(k, directory.AnyVersion, directory.Delta{Counter: "n", By: by, Min: low, Max: high})}
	}
	h.refused(t, "under", move(-1, 0, 10), 0)
	h.refused(t, "over", move(11, 0, 10), 0)
	h.write(t, "full", move(10, 0, 10)...)
	h.refused(t, "fuller", move(1, 0, 10), 0)
	h.refused(t, "not empty", move(0, 0, 0), 0)
	h.write(t, "back", move(-10, 0, 10)...)
	h.write(t, "empty", move(0, 0, 0)...)
	h.write(t, "without bounds", move(math.MaxInt64, math.MinInt64, math.MaxInt64)...)
	h.refused(t, "past the end", move(1, math.MinInt64, math.MaxInt64), 0)
	h.write(t, "far down", move(-math.MaxInt64, math.MinInt64, math.MaxInt64)...)
	if got := h.read(t, k); got.Counters["n"] != 0 || got.Version != 1 {
		t.Errorf("n = %d at version %d, want 0 at 1", got.Counters["n"], got.Version)
	}
}

func countersAtOnce(t *testing.T, h homeSuite) {
	const writers, room = 64, 40
	k := key("p", "CELL")
	h.write(t, "op-0", directory.Put(k, 0, []byte(`1`)))
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			errs[w] = retry(t, func() error {
				return h.Write(t.Context(), directory.Batch{Operation: fmt.Sprintf("op-%d", w), Ops: []directory.Op{
					directory.Require(k, 1, directory.Delta{Counter: "n", By: 1, Max: room}),
					directory.Put(key(fmt.Sprintf("w%d", w), "ENTRY"), 0, []byte(`1`)),
				}})
			})
		})
	}
	wg.Wait()
	won := 0
	for w, err := range errs {
		conflict := (*directory.Conflict)(nil)
		written := h.read(t, key(fmt.Sprintf("w%d", w), "ENTRY")).Version == 1
		if err == nil {
			won++
		} else if !errors.As(err, &conflict) {
			t.Errorf("writer %d: %v", w, err)
		}
		if written != (err == nil) {
			t.Errorf("writer %d: %v, and its record is written: %t", w, err, written)
		}
	}
	if n := h.read(t, k).Counters["n"]; won != room || n != room {
		t.Errorf("%d won and the counter is %d, want %d", won, n, room)
	}
}

// retry comes again while a home is busy.
func retry(t *testing.T, write func() error) error {
	for {
		if err := write(); !errors.Is(err, directory.ErrBusy) || t.Context().Err() != nil {
			return err
		}
	}
}

func oneBatchWins(t *testing.T, h homeSuite) {
	a, b := key("p", "A"), key("q", "B")
	for version := range uint64(5) {
		errs := make([]error, 64)
		var wg sync.WaitGroup
		for w := range errs {
			wg.Go(func() {
				errs[w] = retry(t, func() error {
					return h.Write(t.Context(), directory.Batch{Operation: fmt.Sprintf("op-%d-%d", version, w), Ops: []directory.Op{
						directory.Put(a, version, fmt.Append(nil, w)), directory.Put(b, version, fmt.Append(nil, w)),
					}})
				})
			})
		}
		wg.Wait()
		won := -1
		for w, err := range errs {
			if err == nil && won >= 0 {
				t.Fatalf("writers %d and %d both won", won, w)
			}
			if err == nil {
				won = w
			}
		}
		for _, k := range []directory.Key{a, b} {
			h.stands(t, directory.Record{Key: k, Version: version + 1, Operation: fmt.Sprintf("op-%d-%d", version, won), Body: fmt.Append(nil, won)})
		}
	}
}

func badBatches(t *testing.T, h homeSuite) {
	put := func(k directory.Key) []directory.Op { return []directory.Op{directory.Put(k, 0, []byte(`1`))} }
	many := make([]directory.Op, directory.MaxOps+1)
	for i := range many {
		many[i] = directory.Put(key("p", fmt.Sprintf("A%d", i)), 0, []byte(`1`))
	}
	large := make([]directory.Op, directory.MaxBatch/300_000+1) // each fits
	for i := range large {
		large[i] = directory.Put(key("p", fmt.Sprintf("A%d", i)), 0, []byte(`"`+strings.Repeat("x", 300_000)+`"`))
	}
	for name, c := range map[string]struct {
		batch directory.Batch
		want  error
	}{
		"no operation id":        {directory.Batch{Ops: put(key("p", "A"))}, directory.ErrInvalid},
		"long operation id":      {directory.Batch{Operation: strings.Repeat("o", 129), Ops: put(key("p", "A"))}, directory.ErrInvalid},
		"nothing to do":          {directory.Batch{Operation: "op"}, directory.ErrInvalid},
		"too many":               {directory.Batch{Operation: "op", Ops: many}, directory.ErrTooLarge},
		"one key twice":          {directory.Batch{Operation: "op", Ops: append(put(key("p", "A")), put(key("p", "A"))...)}, directory.ErrInvalid},
		"no part":                {directory.Batch{Operation: "op", Ops: put(key("", "A"))}, directory.ErrInvalid},
		"no sort":                {directory.Batch{Operation: "op", Ops: put(key("p", ""))}, directory.ErrInvalid},
		"not UTF-8":              {directory.Batch{Operation: "op", Ops: put(key("p\xff", "A"))}, directory.ErrInvalid},
		"long part":              {directory.Batch{Operation: "op", Ops: put(key(strings.Repeat("p", 513), "A"))}, directory.ErrTooLarge},
		"long sort":              {directory.Batch{Operation: "op", Ops: put(key("p", strings.Repeat("A", 513)))}, directory.ErrTooLarge},
		"long index":             {directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(key("p", "A"), 0, []byte(`1`), strings.Repeat("i", 2049))}}, directory.ErrTooLarge},
		"too many counters":      {directory.Batch{Operation: "op", Ops: []directory.Op{counting(directory.MaxDeltas+1, directory.Delta{By: 1, Max: 9})}}, directory.ErrTooLarge},
		"a counter twice":        {directory.Batch{Operation: "op", Ops: []directory.Op{directory.Require(key("p", "A"), 1, directory.Delta{Counter: "n", By: 1, Max: 9}, directory.Delta{Counter: "n", By: 1, Max: 9})}}, directory.ErrInvalid},
		"bounds of nothing":      {directory.Batch{Operation: "op", Ops: []directory.Op{counting(1, directory.Delta{Min: 1})}}, directory.ErrInvalid},
		"counters of nothing":    {directory.Batch{Operation: "op", Ops: []directory.Op{directory.Require(key("p", "A"), 0, directory.Delta{Counter: "n", By: 1, Max: 9})}}, directory.ErrInvalid},
		"larger than an item is": {directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(key("p", "A"), 0, []byte(`"`+strings.Repeat("x", directory.MaxRecord)+`"`))}}, directory.ErrTooLarge},
		"larger than a batch is": {directory.Batch{Operation: "op", Ops: large}, directory.ErrTooLarge},
	} {
		if err := h.Write(t.Context(), c.batch); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	h.stands(t, directory.Record{Key: key("p", "A")})
}

// counting creates a record with n counters that move alike.
func counting(n int, d directory.Delta) directory.Op {
	op := directory.Put(key("p", "A"), 0, []byte(`1`))
	for i := range n {
		d.Counter = fmt.Sprintf("shard/s%02d", i)
		op.Deltas = append(op.Deltas, d)
	}
	return op
}

// As many counters as one operation may move, each within bounds of its own.
func manyCounters(t *testing.T, h homeSuite) {
	h.write(t, "op-1", counting(directory.MaxDeltas, directory.Delta{By: 3, Max: 5}))
	again := counting(directory.MaxDeltas, directory.Delta{By: 2, Max: 5})
	again.Expect = 1
	h.write(t, "op-2", again)
	again.Expect = 2
	h.refused(t, "op-3", []directory.Op{again}, 0)
	got := h.read(t, again.Key).Counters
	if len(got) != directory.MaxDeltas {
		t.Errorf("%d counters, want %d", len(got), directory.MaxDeltas)
	}
	for name, n := range got {
		if n != 5 {
			t.Errorf("%s = %d, want 5", name, n)
		}
	}
}

func nearTheLargest(t *testing.T, h homeSuite) {
	k := key("p", "A")
	op := directory.Put(k, 0, nil)
	body := []byte(`"` + strings.Repeat("x", directory.MaxRecord-op.Size()-len("op")-2) + `"`)
	h.write(t, "op", directory.Put(k, 0, body))
	h.stands(t, directory.Record{Key: k, Version: 1, Operation: "op", Body: body})
	if err := h.Write(t.Context(), directory.Batch{Operation: "op2", Ops: []directory.Op{directory.Put(k, 1, body)}}); !errors.Is(err, directory.ErrTooLarge) {
		t.Errorf("one byte more: %v, want %q", err, directory.ErrTooLarge)
	}
}

func keysOfEveryKind(t *testing.T, h homeSuite) {
	names := append(names(), strings.Repeat("\U0001F512", 128))
	for i, n := range names {
		h.write(t, fmt.Sprintf("op-%d", i), directory.Put(key(n, "ENTRY"), 0, fmt.Append(nil, i)), directory.Put(key("p", "LOG#"+n[:min(len(n), 500)]), 0, fmt.Append(nil, i), "v"+n[:min(len(n), 500)]))
	}
	for i, n := range names {
		h.stands(t, directory.Record{Key: key(n, "ENTRY"), Version: 1, Operation: fmt.Sprintf("op-%d", i), Body: fmt.Append(nil, i)})
		r := directory.Range{Family: "ENTRY", Part: n}
		if got := h.list(t, r, 10, nil); len(got) != 1 || got[0].Part != n {
			t.Errorf("part %q lists %v", n, got)
		}
		r = directory.Range{Family: "LOG", Index: directory.First, Value: "v" + n[:min(len(n), 500)]}
		if got := h.list(t, r, 10, nil); len(got) != 1 || got[0].Sort != "LOG#"+n[:min(len(n), 500)] {
			t.Errorf("value %q lists %v", n, got)
		}
	}
}

func recordsShareNoMemory(t *testing.T, h homeSuite) {
	k := key("p", "ENTRY")
	body := []byte(`{"a":1}`)
	h.write(t, "op", directory.Put(k, 0, body, "x"))
	want := h.read(t, k).Clone()
	body[1] = 'X'
	h.stands(t, want)
	h.read(t, k).Body[1] = 'Y'
	h.stands(t, want)
	records, err := h.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, 1)
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	records[0].Body[1] = 'Z'
	h.stands(t, want)
}
