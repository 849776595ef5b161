package boltdir

import (
	"fmt"
	"slices"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// TestATransactionIsEndedWhenItIsFull writes batches whose records are each on a page of its own, and such
// whose records lie together.
func TestATransactionIsEndedWhenItIsFull(t *testing.T) {
	const records, bound = 20_000, 1024 + directory.MaxOps + 10 // pages: those of the last batch, and the way to them
	d := open(t, file(t))
	key := func(i int) directory.Key { return directory.Key{Part: fmt.Sprintf("T#%06d", i), Sort: "ENTRY"} }
	batches := func(version uint64, of func(i int) int) (all []*pending) {
		for i := 0; i < records; i += directory.MaxOps {
			p := &pending{ctx: t.Context(), batch: directory.Batch{Operation: fmt.Sprint(version)}, done: make(chan struct{})}
			for j := i; j < i+directory.MaxOps; j++ {
				p.batch.Ops = append(p.batch.Ops, directory.Put(key(of(j)), version, make([]byte, 1000)))
			}
			all = append(all, p)
		}
		return all
	}
	d.writer.stop() // from here on, this test writes
	w := &writer{db: d.db, pages: d.pages}
	nodes := func() int64 {
		stats := d.db.Bolt().Stats()
		return stats.TxStats.GetNodeCount()
	}
	transactions := func(all []*pending) (n int) {
		t.Helper()
		for rest := slices.Clone(all); len(rest) > 0; n++ {
			before := nodes()
			decided := w.share(rest)
			if took := nodes() - before; took > bound || decided == 0 {
				t.Errorf("a transaction of %d batches changed %d pages, want at most %d", decided, took, bound)
			}
			rest = rest[decided:]
		}
		for _, p := range all {
			select {
			case <-p.done:
				if p.err != nil {
					t.Fatal(p.err)
				}
			default:
				t.Fatal("a batch has no answer")
			}
		}
		return n
	}
	if n := transactions(batches(0, func(i int) int { return i })); n != 1 {
		t.Errorf("%d transactions for new records side by side, want 1", n)
	}
	scattered := func(i int) int { return i * 7919 % records }
	if n := transactions(batches(1, scattered)); n < 5 {
		t.Errorf("%d transactions for records on %d pages", n, records/3)
	}
	got, err := d.Read(t.Context(), directory.Strong, key(0), key(records/2), key(records-1))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Version != 2 {
			t.Errorf("%v has version %d, want 2", r.Key, r.Version)
		}
	}
}
