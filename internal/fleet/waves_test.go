package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	var cells []Cell
	for i, n := range []int{4, 16, 16, 4} {
		cells = append(cells, Cell{Name: string(rune('a' + i)), Shards: make(Shards, n)})
	}
	list := func(names string) Wave { return Wave{Cells: strings.Split(names, "")} }
	upTo := func(p int) Wave { return Wave{Percent: &p} }
	for _, c := range []struct {
		waves      []Wave
		want, left string
	}{
		{[]Wave{upTo(100)}, "abcd:10000", ""},
		{[]Wave{upTo(10), upTo(50), upTo(100)}, "a:1000 b:5000 cd:10000", ""},
		{[]Wave{upTo(9), upTo(49), upTo(100)}, "a:1000 b:5000 cd:10000", ""},   // at least one cell each
		{[]Wave{list("d"), upTo(50), upTo(100)}, "d:1000 a:2000 bc:10000", ""}, // b would reach 60
		{[]Wave{upTo(60), list("a"), upTo(100)}, "b:4000 a:5000 cd:10000", ""}, // listed later, so not taken now
		{[]Wave{list("ab"), list("cd")}, "ab:5000 cd:10000", ""},
		{[]Wave{list("a"), upTo(50)}, "a:1000 b:5000", "cd"},
		{[]Wave{upTo(50), upTo(90), upTo(100)}, "ab:5000 c:9000 d:10000", ""},
		{[]Wave{list("abcd"), upTo(100)}, "abcd:10000 :10000", ""},
		{[]Wave{upTo(90), upTo(95), upTo(100)}, "ab:5000 c:9000 d:10000", ""}, // c and d are left for the waves to come
	} {
		waves, left := resolve(cells, c.waves)
		var got []string
		for _, w := range waves {
			got = append(got, fmt.Sprintf("%s:%d", strings.Join(w.Cells, ""), w.Share))
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" || strings.Join(left, "") != c.left {
			t.Errorf("%s, left %v, want %s:\n%s", c.want, left, c.left, diff)
		}
	}
}
