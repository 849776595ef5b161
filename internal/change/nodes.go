package change

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// isCall says whether a value is an intrinsic function, which stands for a value that is not known.
func isCall(n template.Node) bool {
	return n.Kind() == template.Map && n.Len() == 1 && (n.Key(0) == "Ref" || strings.HasPrefix(n.Key(0), "Fn::"))
}

// equal says whether two values are the same, in whatever order keys stand.
func equal(a, b template.Node) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	switch a.Kind() {
	case template.Map:
		for i := range a.Len() {
			if v, ok := b.Get(a.Key(i)); !ok || !equal(a.At(i), v) {
				return false
			}
		}
	case template.List:
		for i := range a.Len() {
			if !equal(a.At(i), b.At(i)) {
				return false
			}
		}
	default:
		x, _ := a.Scalar()
		y, _ := b.Scalar()
		return x == y
	}
	return true
}

// differences visits the innermost values that differ. Lists of different lengths differ as a whole: which
// element went is a guess. The path is valid during the visit only.
func differences(path []string, a, b template.Node, visit func(path []string, from, to *template.Node)) {
	switch {
	case equal(a, b):
	case a.Kind() == template.Map && b.Kind() == template.Map && !isCall(a) && !isCall(b):
		keys := map[string]bool{}
		for _, n := range []template.Node{a, b} {
			for i := range n.Len() {
				keys[n.Key(i)] = true
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			x, before := a.Get(key)
			y, after := b.Get(key)
			at := append(path[:len(path):len(path)], key)
			switch {
			case !before:
				visit(at, nil, &y)
			case !after:
				visit(at, &x, nil)
			default:
				differences(at, x, y, visit)
			}
		}
	case a.Kind() == template.List && b.Kind() == template.List && a.Len() == b.Len():
		for i := range a.Len() {
			differences(append(path[:len(path):len(path)], strconv.Itoa(i)), a.At(i), b.At(i), visit)
		}
	default:
		visit(path, &a, &b)
	}
}

// calls says whether an intrinsic function of that name stands anywhere in a value.
func calls(n template.Node, fn string) bool {
	for i := range n.Len() {
		if n.Kind() == template.Map && n.Key(i) == fn || calls(n.At(i), fn) {
			return true
		}
	}
	return false
}
