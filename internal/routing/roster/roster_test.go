package roster

import (
	"fmt"
	"sync"
	"testing"
)

func TestSame(t *testing.T) {
	r := New(100, func() *int { return new(int) })
	var got [8][100]*int
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for i := range 100 {
				n := (i*37 + g*11) % 100
				got[g][n] = r.Get(fmt.Sprint(n))
			}
		})
	}
	wg.Wait()
	seen := map[*int]bool{}
	for n := range 100 {
		first := got[0][n]
		if first == nil || seen[first] {
			t.Fatalf("name %d has no record of its own", n)
		}
		seen[first] = true
		for g := range got {
			if got[g][n] != first || r.Find(fmt.Sprint(n)) != first {
				t.Fatalf("name %d has two records", n)
			}
		}
	}
}

func TestBounded(t *testing.T) {
	r := New(3, func() *int { return new(int) })
	for i := range 10 {
		if got := r.Get(fmt.Sprint(i)); (got != nil) != (i < 3) {
			t.Errorf("name %d: record %v", i, got)
		}
	}
	n := 0
	r.All(func(name string, v *int) {
		if v == nil || v != r.Get(name) {
			t.Errorf("%s is told with another record", name)
		}
		n++
	})
	if n != 3 || r.Find("3") != nil || r.Find("2") == nil {
		t.Errorf("%d records", n)
	}
}

func TestNoAllocations(t *testing.T) {
	r := New(3, func() *int { return new(int) })
	r.Get("a")
	if n := testing.AllocsPerRun(100, func() { r.Get("a"); r.Find("b") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
