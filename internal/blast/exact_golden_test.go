package blast

import (
	"fmt"
	"testing"
)

// ExactRational, of every machine: to the last bit. Written as hexadecimal numbers, which hide none.
func TestExactRationalOnEveryMachine(t *testing.T) {
	a, b, c := exactModel(t, 16, 2), exactModel(t, 32, 12), exactModel(t, 2048, 4)
	fail := exactMust[Expected](t)(b.Fail(7))
	for _, of := range []struct {
		what string
		got  float64
		want string
	}{
		{"identical subsets of 2 of 16", a.Identical(), "0x1.1111111111111p-07"},
		{"identical subsets of 4 of 2,048", c.Identical(), "0x1.812096439c435p-40"},
		{"an overlap of 5 of 12 of 32", b.Overlap()[5], "0x1.16702a7491f74p-02"},
		{"degraded by 7 of 32", fail.Degraded, "0x1.f4353e33b5ab9p-01"},
		{"untouched by 7 of 32", fail.Untouched, "0x1.795839894a8e6p-06"},
		{"covered by 4", exactMust[float64](t)(b.Covered(4)), "0x1.d43a615be9369p-04"},
		{"covered by 16", exactMust[float64](t)(b.Covered(16)), "0x1.fcad34dd8adbep-01"},
		{"a coincidence among 14 of 120", exactMust[float64](t)(a.AnyIdentical(14)), "0x1.1747717127de8p-01"},
	} {
		if got := fmt.Sprintf("%x", of.got); got != of.want {
			t.Errorf("%s is %s, want %s", of.what, got, of.want)
		}
	}
}
