package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyNode draws a node of bounded depth, intrinsic functions among the keys.
func anyNode(depth int) *rapid.Generator[Node] {
	scalar := rapid.OneOf(
		rapid.Just(Node{}),
		rapid.Map(rapid.Bool(), NewBool),
		rapid.Map(rapid.Int(), func(i int) Node { return NewNumber(fmt.Sprint(i)) }),
		rapid.Map(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"${A}", "${a.b}x", "arn:aws:s3:::b"})), NewString),
	)
	if depth == 0 {
		return scalar
	}
	child := rapid.Deferred(func() *rapid.Generator[Node] { return anyNode(depth - 1) })
	list := rapid.Map(rapid.SliceOfN(child, 0, 4), NewList)
	return rapid.OneOf(scalar, list,
		rapid.Custom(func(t *rapid.T) Node {
			fn := rapid.SampledFrom([]string{"Ref", "Fn::Sub", "Fn::Join", "Fn::If", "Fn::Select", "Fn::Split", "Fn::GetAtt", "Fn::Base64", "Fn::X"}).Draw(t, "fn")
			return Single(fn, rapid.OneOf(child, list).Draw(t, "arg"))
		}),
		rapid.Custom(func(t *rapid.T) Node {
			var b MapBuilder
			for _, k := range rapid.SliceOfNDistinct(rapid.String(), 0, 20, rapid.ID).Draw(t, "keys") {
				if err := b.Add(k, child.Draw(t, "value")); err != nil {
					t.Fatal(err)
				}
			}
			return b.Node()
		}))
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNode(3).Draw(t, "node")
		out, err := n.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeJSON(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		second, err := again.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(out), string(second)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestBoundedDecoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out, err := anyNode(3).Draw(t, "node").MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		// any damage ends in a node or an error, and depth is bounded
		if len(out) > 0 {
			cut := rapid.IntRange(0, len(out)).Draw(t, "cut")
			wrap := rapid.IntRange(0, MaxDepth+50).Draw(t, "wrap")
			whole := rapid.Bool().Draw(t, "whole")
			text := strings.Repeat("[", wrap) + string(out[:cut])
			if whole {
				text = strings.Repeat("[", wrap) + string(out) + strings.Repeat("]", wrap)
			}
			n, err := DecodeJSON([]byte(text))
			if err == nil && depthOf(n) > MaxDepth {
				t.Fatalf("depth %d", depthOf(n))
			}
			if whole && wrap+4 < MaxDepth && err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if !whole && wrap > 0 && err == nil {
				t.Fatalf("accepts unclosed %s", text)
			}
		}
		dup := fmt.Sprintf(`{"k": %s, "k": 1}`, out)
		if _, err := DecodeJSON([]byte(dup)); err == nil {
			t.Fatal("accepts a key twice")
		}
	})
}

func depthOf(n Node) int {
	d := 0
	for i := range n.Len() {
		d = max(d, 1+depthOf(n.At(i)))
	}
	return d
}

func TestEveryReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// plant distinct references in random places and count how often each is seen
		planted := map[string]int{}
		var grow func(depth int) Node
		grow = func(depth int) Node {
			id := fmt.Sprintf("R%d", len(planted))
			kind := rapid.IntRange(0, 8).Draw(t, "kind")
			if depth == 0 {
				kind %= 4
			}
			switch kind {
			case 0:
				planted[id] = 0
				return Single("Ref", NewString(id))
			case 1:
				planted[id] = 0
				return Single("Fn::GetAtt", NewList([]Node{NewString(id), NewString("Arn")}))
			case 2:
				planted[id] = 0
				return Single("Fn::Sub", NewString("x${"+id+"}y"))
			case 3:
				planted[id] = 0
				return Single("Fn::Sub", NewString("${"+id+".Arn}"))
			case 4:
				return Single("Fn::Sub", NewList([]Node{NewString("${v}"), Single("v", grow(depth-1))}))
			case 5:
				return Single("Fn::Join", NewList([]Node{NewString(""), NewList([]Node{grow(depth - 1), grow(depth - 1)})}))
			case 6:
				return Single("Fn::If", NewList([]Node{NewString("C"), grow(depth - 1), grow(depth - 1)}))
			case 7:
				return Single("Fn::ImportValue", grow(depth-1))
			}
			return NewList([]Node{Single("Key", grow(depth-1)), Single("Fn::Unknown", grow(depth-1))})
		}
		n := grow(4)
		Uses(n, func(u Use) {
			if u.Kind == UseRef || u.Kind == UseGetAtt {
				planted[u.Name]++
			}
		})
		for id, seen := range planted {
			if seen != 1 {
				t.Fatalf("%s seen %d times", id, seen)
			}
		}
	})
}

// checkBounds evaluates every part of a node and checks the bounds of the result.
func checkBounds(t interface{ Fatalf(string, ...any) }, sc Scope, n Node) {
	ts := sc.Eval(n)
	if len(ts) == 0 || len(ts) > MaxAlternatives {
		t.Fatalf("%d alternatives", len(ts))
	}
	if s, isString := n.Scalar(); !isString || len(s) <= MaxText { // a literal is as long as it is
		for _, text := range ts {
			size := 0
			for _, p := range text {
				size += len(p.Literal)
			}
			if size > MaxText || len(text) > maxParts {
				t.Fatalf("a text of %d bytes in %d parts", size, len(text))
			}
		}
	}
	Uses(n, func(u Use) {
		if u.Kind == UseText && len(sc.Eval(u.Node)) == 0 {
			t.Fatalf("no text")
		}
	})
}

func TestBoundedEvaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkBounds(t, Scope{}, anyNode(4).Draw(t, "node")) })

	// what doubles at every level, in length and in alternatives, and what is only long
	long, both := NewString("0123456789"), NewString("x")
	for range 80 {
		long = Single("Fn::Sub", NewList([]Node{NewString("${a}${a}"), Single("a", long)}))
		both = Single("Fn::If", NewList([]Node{NewString("C"), both, both}))
		if depthOf(both) > 12 { // a tree of its own has no sharing: it doubles in size as well
			both = Single("Fn::Join", NewList([]Node{NewString(""), NewList([]Node{both})}))
			break
		}
	}
	var many []Node
	for i := range 50_000 {
		many = append(many, Single("Ref", NewString(fmt.Sprint("R", i))), NewString("literal"))
	}
	for _, n := range []Node{long, both, Single("Fn::Join", NewList([]Node{NewString("-"), NewList(many)}))} {
		checkBounds(t, Scope{}, n)
	}
}

func TestSubLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "${") }).Draw(t, "s")
		if got, ok := (Scope{}).Eval(Single("Fn::Sub", NewString(s)))[0].Literal(); !ok || got != s {
			t.Fatalf("%q became %q", s, got)
		}
		name := rapid.StringMatching(`[A-Za-z0-9.:]{1,12}`).Draw(t, "name")
		if got, ok := (Scope{}).Eval(Single("Fn::Sub", NewString("${!"+name+"}")))[0].Literal(); !ok || got != "${"+name+"}" {
			t.Fatalf("%q became %q", name, got)
		}
	})
}

// TestBoundedWork holds that an expression that grows with each level it is nested is cut, says so, and
// that a cut is no other hole.
func TestBoundedWork(t *testing.T) {
	v := Single("Ref", NewString("X"))
	for range 14 {
		v = Single("Fn::Join", NewList([]Node{NewString(""), NewList([]Node{v, NewString("-"), v})}))
	}
	e := evaluation{left: MaxWork}
	if ts := e.eval(v); !ts[0].Cut() {
		t.Errorf("%d levels are not cut: %d parts", 14, len(ts[0]))
	}
	if worked := MaxWork - e.left; worked > 4*MaxWork {
		t.Errorf("%d values looked at, want about %d", worked, MaxWork)
	}
	deep := NewString("x")
	for i := range 14 {
		deep = Single("Fn::If", NewList([]Node{NewString("C"), deep, NewString(string(rune('a' + i)))}))
	}
	for _, text := range (Scope{}).Eval(deep) {
		if _, ok := text.Literal(); !ok || text.Cut() {
			t.Errorf("15 alternatives fit and are cut: %v", text)
		}
	}
	if (Scope{}).Eval(Single("Ref", NewString("X")))[0].Cut() {
		t.Error("an unknown parameter counts as cut")
	}
}

// Texts that are joined piece by piece are what the product of all pieces is.
func TestJoinIsProduct(t *testing.T) {
	part := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", "a", "bc", strings.Repeat("x", MaxText/3)}), func(s string) Part { return Part{Literal: s} }),
		rapid.Map(rapid.SampledFrom([]string{"A", "B.Arn"}), func(s string) Part { return Part{Hole: s} }))
	text := rapid.Map(rapid.SliceOfN(part, 0, 3), func(ps []Part) Text {
		var out Text
		for _, p := range ps {
			if p != (Part{}) {
				out = concat(out, Text{p})
			}
		}
		return out
	})
	rapid.Check(t, func(t *rapid.T) {
		var j joiner
		want := []Text{nil}
		for _, ts := range rapid.SliceOfN(rapid.SliceOfN(text, 1, 3), 0, 6).Draw(t, "texts") {
			want = product(want, ts)
			j.add(ts)
		}
		if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(j.texts())); diff != "" {
			t.Fatal(diff)
		}
	})
}
