package audit

import (
	"math"
	"strconv"

	"cellwall.dev/cellwall/internal/template"
)

// propValue is a value of a template together with where it is evaluated.
type propValue struct {
	template.Node
	scope *template.Scope
}

// get is a part of an object, null when it is not there.
func (p propValue) get(key string) propValue {
	n, _ := p.Node.Get(key)
	return propValue{n, p.scope}
}

// items are the elements of a list as it is written, or of a single value.
func (p propValue) items() []propValue {
	if p.Kind() != template.List {
		if p.Kind() == template.Null {
			return nil
		}
		return []propValue{p}
	}
	out := make([]propValue, p.Len())
	for i := range out {
		out[i] = propValue{p.At(i), p.scope}
	}
	return out
}

// unbounded stands for "any number": far above each limit, and far below an overflow of sums.
const unbounded = 1 << 20

// length is how many elements a list has. What an intrinsic function makes of it is between none and any number,
// and an element that a condition decides may be none.
func (p propValue) length() span {
	switch p.Kind() {
	case template.Null:
		return span{}
	case template.List:
		n := span{}
		for _, item := range p.items() {
			n = n.plus(item.element())
		}
		return n
	}
	if a, b, ok := p.branches(); ok {
		return a.length().or(b.length())
	}
	if p.isNone() {
		return span{}
	}
	if _, literal := p.Scalar(); literal {
		return exactly(1)
	}
	return span{0, unbounded}
}

// element is how many elements one item of a list becomes.
func (p propValue) element() span {
	if p.isNone() {
		return span{}
	}
	if a, b, ok := p.branches(); ok {
		return a.element().or(b.element())
	}
	return exactly(1)
}

// isNone says whether the value is AWS::NoValue.
func (p propValue) isNone() bool {
	return p.Kind() == template.Map && p.Len() == 1 && p.Key(0) == "Ref" && p.GetString("Ref") == "AWS::NoValue"
}

// branches are the two values of an Fn::If.
func (p propValue) branches() (a, b propValue, ok bool) {
	arg, found := p.Node.Get("Fn::If")
	if !found || p.Len() != 1 || arg.Kind() != template.List || arg.Len() != 3 {
		return a, b, false
	}
	return propValue{arg.At(1), p.scope}, propValue{arg.At(2), p.scope}, true
}

// text is the value when it is one known string.
func (p propValue) text() (string, bool) {
	if p.Kind() == template.Null {
		return "", false
	}
	return oneText(*p.scope, p.Node)
}

// is says whether the value is that string, and or says what holds when it is not there.
func (p propValue) is(s string, or bool) bool {
	if p.Kind() == template.Null {
		return or
	}
	got, ok := p.text()
	return ok && got == s
}

// number is a whole number from 0 on, of which only the bounds may be known: several when conditions decide. ok is false when one of
// them, or all, a deployment decides.
func (p propValue) number() (n span, ok bool) {
	if p.Kind() == template.Null {
		return span{}, false
	}
	first, all := true, true
	for _, t := range p.scope.Eval(p.Node) {
		lit, isLit := t.Literal()
		if isLit && lit == "" {
			continue // AWS::NoValue
		}
		k, err := strconv.ParseFloat(lit, 64)
		if !isLit || err != nil || math.IsNaN(k) || k < 0 || k > 1e9 {
			all = false
			continue
		}
		v := exactly(int(k))
		if first {
			n, first = v, false
		}
		n = n.or(v)
	}
	return n, all && !first
}
