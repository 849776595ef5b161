package blast

import (
	"iter"
	"math"
	"slices"
	"testing"
)

func storyNear(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestStories(t *testing.T) {
	stories := Stories()
	if len(stories) != 3 {
		t.Fatalf("%d stories", len(stories))
	}
	for _, s := range stories {
		for _, r := range s.Rows {
			storyNear(t, s.Name+", "+r.Layout+", all", r.Down+r.Partly+r.Untouched, 1, 1e-12)
			if r.FailOnce < r.FailRetried-1e-12 || r.FailRetried != r.Down {
				t.Errorf("%s, %s: fails %v once, %v retried", s.Name, r.Layout, r.FailOnce, r.FailRetried)
			}
		}
	}

	// "100%, then 25%, then about 1/28th", and what is left of it without resends.
	eight := stories[0].Rows
	for i, want := range []struct{ retried, once float64 }{{1, 1}, {0.25, 0.25}, {1.0 / 28, 0.25}} {
		storyNear(t, eight[i].Layout, eight[i].FailRetried, want.retried, 1e-15)
		storyNear(t, eight[i].Layout+" without resends", eight[i].FailOnce, want.once, 1e-15)
	}

	// "about 125 tenants ... completely", "12.5 percent ... by half", "18.75 percent, each missing a third".
	sixteen := stories[1].Rows
	for i, want := range []struct{ down, partly float64 }{{125, 0}, {0, 250}, {0, 375}, {250, 0}, {2000.0 / 120, 2000 * 28.0 / 120}, {0, 2000 * (1 - 364.0/560)}} {
		r := sixteen[i]
		storyNear(t, r.Layout+", down", r.Of(r.Down), want.down, 1e-9)
		storyNear(t, r.Layout+", partly", r.Of(r.Partly), want.partly, 1e-9)
	}

	// "all 23 other customers", "the 5 customers sharing that cell", "10 lose one ... and 13 are
	// untouched"; with 4 of 8 "nobody else goes down, but almost everyone loses some capacity".
	page := stories[2].Rows
	for i, want := range []struct{ down, partly, untouched, within float64 }{
		{23, 0, 0, 1e-9}, {5, 0, 18, 1e-9}, {0, 10, 13, 1e-9}, {0.82, 9.86, 12.32, 0.005}, {0.33, 22.34, 0.33, 0.005},
	} {
		r := page[i]
		storyNear(t, r.Layout+", down", r.Of(r.Down), want.down, want.within)
		storyNear(t, r.Layout+", partly", r.Of(r.Partly), want.partly, want.within)
		storyNear(t, r.Layout+", untouched", r.Of(r.Untouched), want.untouched, want.within)
	}
}

// The stories again, by counting over tenants.
func TestStoriesMeasured(t *testing.T) {
	// As many customers on each of the 28 pairs: of all, one in 28 is down with a pair.
	p := collect(t, 8, everySubset(8, 2, 1))
	if got := fail(t, p, []int{0, 3}); got.FullyDown != 1 || p.Tenants() != 28 {
		t.Errorf("%d of %d down", got.FullyDown, p.Tenants())
	}
	// 16 shards, each subset alike.
	for k, want := range map[int]float64{1: 125, 2: 250, 3: 375} {
		p := collect(t, 16, everySubset(16, k, 1))
		got := fail(t, p, []int{5})
		storyNear(t, "degraded of 2,000", 2000*float64(got.Degraded)/float64(p.Tenants()), want, 1e-9)
		if k > 1 && got.FullyDown != 0 {
			t.Errorf("k = %d: %d down", k, got.FullyDown)
		}
	}
	// The page's pins, whichever customer is clicked.
	pins := StoryPins()
	if len(pins) != 24 {
		t.Fatalf("%d customers", len(pins))
	}
	for i, poison := range pins {
		others := slices.Delete(slices.Clone(pins), i, i+1)
		p := collect(t, 8, storySubsets(others))
		got := fail(t, p, poison.Shards)
		if down, degraded, untouched := got.FullyDown, got.Degraded, p.Tenants()-got.Degraded; down != 0 || degraded != 10 || untouched != 13 {
			t.Errorf("%s: %d down, %d degraded, %d untouched", poison.Tenant, down, degraded, untouched)
		}
		if slices.ContainsFunc(others, func(o StoryPin) bool { return o.Tenant == poison.Tenant }) {
			t.Errorf("two are called %s", poison.Tenant)
		}
	}
}

func storySubsets(pins []StoryPin) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for _, pin := range pins {
			if !yield(pin.Shards) {
				return
			}
		}
	}
}
