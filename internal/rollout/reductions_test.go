package rollout

import (
	"maps"
	"slices"
	"testing"
)

// TestReductions: states of one short key lead, by the same events, to states of the same short keys. So what that key
// leaves out makes no difference, and one of them stands for all. This is gone through with the long key.
func TestReductions(t *testing.T) {
	for _, sh := range []shape{{[][]int{{1}}, 1, false, true}, {[][]int{{1}}, 1, true, true}, {[][]int{{1}}, 2, false, false},
		{[][]int{{1}, {1}}, 1, true, false}, {[][]int{{2}}, 1, false, false}, {[][]int{{1}, {1}, {1}}, 1, false, false}} {
		leads := make(map[string][]string) // by short key: where to
		first := make(map[string]node)
		x := newExplorer(sh)
		x.long = true
		x.edge = nil
		states := 0
		x.node = map[string]nodeRule{"Reductions": func(x *explorer, n *node) string {
			states++
			key := n.key(true)
			to := make(map[string]bool)
			for _, e := range n.possible(sh.full) {
				if after, _, err := x.after(n, e); err == nil {
					to[after.key(true)] = true
				}
			}
			delete(to, key) // what makes no difference
			keys := slices.Sorted(maps.Keys(to))
			if one, known := leads[key]; !known {
				leads[key], first[key] = keys, *n
			} else if !slices.Equal(one, keys) {
				t.Logf("one %+v", first[key].s)
				return "it has the key of another, and leads elsewhere"
			}
			return ""
		}}
		if x.run(); x.fault != "" {
			t.Error(x.why)
		}
		t.Logf("%v: %d states are %d", sh, states, len(leads))
	}
}
