package template

import (
	"strconv"
	"strings"
)

// Bounds of an evaluation, far above what real templates need and low enough that no template can make
// evaluation grow beyond its own size.
const (
	MaxAlternatives = 16       // texts that one expression may stand for
	MaxText         = 64 << 10 // bytes of one text
	MaxWork         = 2048     // values that one evaluation looks at
	maxParts        = 256      // pieces of one text
)

// The holes of what was cut at a bound. What they stand for was not seen, which is worth telling.
const (
	cutAlternatives = "too many alternatives"
	cutText         = "a text that is too long"
	cutWork         = "an expression that is too large"
)

// Cut says whether a part of the text was not evaluated because of a bound.
func (t Text) Cut() bool {
	for _, p := range t {
		if p.Hole == cutAlternatives || p.Hole == cutText || p.Hole == cutWork {
			return true
		}
	}
	return false
}

// Part is one piece of a text: literal, or a hole when Hole is not "".
type Part struct {
	Literal string
	// Hole names what is not known before deployment: a logical id, a parameter, or the intrinsic
	// function that would have to run.
	Hole string
}

// Text is a string of which some pieces may be unknown.
type Text []Part

// Literal is the whole string, and whether all of it is known.
func (t Text) Literal() (string, bool) {
	switch {
	case len(t) == 0:
		return "", true
	case len(t) == 1:
		return t[0].Literal, t[0].Hole == ""
	}
	return "", false // neighbouring literals are joined, so a second part means a hole
}

func hole(name string) []Text { return []Text{{{Hole: name}}} }
func literal(s string) []Text {
	if s == "" {
		return []Text{nil}
	}
	return []Text{{{Literal: s}}}
}

// Scope is where an expression is evaluated.
type Scope struct {
	Template *Template
	// Pseudo holds what is known of AWS::AccountId, AWS::Region, AWS::Partition, AWS::URLSuffix and
	// AWS::StackName.
	Pseudo map[string]string
	// Values are parameter values given at deployment; they go before the template's defaults.
	Values map[string]string
	// Unknown are parameters that are given a value which is not known, so that no default holds.
	Unknown map[string]bool
}

// Eval is the texts that an expression may stand for: more than one where a condition decides. What
// only a deployment knows is a hole, and so is what lies beyond MaxWork values.
func (s Scope) Eval(n Node) []Text { return (&evaluation{Scope: s, left: MaxWork}).eval(n) }

// evaluation is one call of Eval.
type evaluation struct {
	Scope
	left int // values that may still be looked at
}

func (s *evaluation) eval(n Node) []Text {
	if s.left--; s.left < 0 {
		return hole(cutWork)
	}
	if t, ok := n.Scalar(); ok {
		return literal(t)
	}
	fn, arg, ok := intrinsic(n)
	if !ok {
		return hole("an expression")
	}
	switch fn {
	case "Ref":
		return s.ref(arg.text)
	case "Fn::GetAtt":
		name, attr, _ := getAtt(arg)
		return hole(name + "." + attr)
	case "Fn::Sub":
		return s.sub(arg)
	case "Fn::Join":
		return s.join(arg)
	case "Fn::Base64":
		return s.eval(arg) // what it says matters here, not how it travels
	case "Fn::Select":
		if arg.kind == List && arg.Len() == 2 {
			if i, ok := s.index(arg.At(0)); ok {
				if items, ok := s.list(arg.At(1)); ok && i < len(items) {
					return s.eval(items[i])
				}
			}
		}
	case "Fn::If":
		if arg.kind == List && arg.Len() == 3 {
			ts := s.eval(arg.At(1))
			if len(ts) == MaxAlternatives {
				return capped(append(ts[:len(ts):len(ts)], Text{{Hole: cutAlternatives}}))
			}
			return capped(append(ts[:len(ts):len(ts)], s.eval(arg.At(2))...))
		}
	case "Fn::FindInMap":
		if v, ok := s.findInMap(arg); ok {
			return literal(v)
		}
	}
	return hole(fn)
}

// IsSSM says whether a parameter's type makes CloudFormation read its value from the Parameter Store,
// so that Default is the name there.
func (p Parameter) IsSSM() bool { return strings.HasPrefix(p.Type, "AWS::SSM::Parameter::Value<") }

// Value is a parameter's value as far as it is known: the given one, or the default. For an SSM
// parameter that is the name in the Parameter Store.
func (s Scope) Value(p Parameter) (string, bool) {
	if v, ok := s.Values[p.ID]; ok {
		return v, true
	}
	return p.Default, p.HasDefault && !s.Unknown[p.ID]
}

func (s Scope) ref(name string) []Text {
	p := s.refPart(name)
	if p == (Part{}) {
		return []Text{nil}
	}
	return []Text{{p}}
}

// refPart is what a reference stands for: a literal, or a hole of that name.
func (s *Scope) refPart(name string) Part {
	if v, ok := s.Pseudo[name]; ok {
		return Part{Literal: v}
	}
	if name == "AWS::NoValue" {
		return Part{}
	}
	if s.Template != nil {
		if p, ok := s.Template.Parameter(name); ok && !p.IsSSM() {
			if v, ok := s.Value(p); ok {
				return Part{Literal: v}
			}
		}
	}
	return Part{Hole: name}
}

func (s *evaluation) sub(arg Node) []Text {
	str, vars, ok := subArgs(arg)
	if !ok {
		return hole("Fn::Sub")
	}
	var known map[string][]Text // each variable of its own is evaluated once, however often it stands in the string
	var j joiner
	for part := range subParts(str) {
		v, own := vars.Get(part.Var)
		switch {
		case part.Var == "":
			j.part(Part{Literal: part.Literal})
		case own:
			ts, seen := known[part.Var]
			if !seen {
				ts = s.eval(v)
				if known == nil {
					known = map[string][]Text{}
				}
				known[part.Var] = ts
			}
			j.add(ts)
		case strings.Contains(part.Var, "."):
			j.part(Part{Hole: part.Var})
		default:
			j.part(s.refPart(part.Var))
		}
	}
	return j.texts()
}

func (s *evaluation) join(arg Node) []Text {
	if arg.kind != List || arg.Len() != 2 {
		return hole("Fn::Join")
	}
	sep, ok := arg.At(0).Str()
	items, isList := s.list(arg.At(1))
	if !ok || !isList {
		return hole("Fn::Join")
	}
	var j joiner
	for i, item := range items {
		if i > 0 {
			j.part(Part{Literal: sep})
		}
		if t, ok := item.Scalar(); ok && s.left > 0 { // as eval does, without a text of its own
			s.left--
			j.part(Part{Literal: t})
			continue
		}
		j.add(s.eval(item))
	}
	return j.texts()
}

// list is the elements of a list expression: a literal list, a comma-separated parameter, or
// Fn::Split of a known text.
func (s *evaluation) list(n Node) ([]Node, bool) {
	if n.kind == List {
		return n.items, true
	}
	var text, sep string
	fn, arg, _ := intrinsic(n)
	switch {
	case fn == "Ref":
		ts := s.ref(arg.text)
		lit, ok := ts[0].Literal()
		if !ok || len(ts) > 1 {
			return nil, false
		}
		text, sep = lit, ","
	case fn == "Fn::Split" && arg.kind == List && arg.Len() == 2:
		ts := s.eval(arg.At(1))
		lit, ok := ts[0].Literal()
		if !ok || len(ts) > 1 {
			return nil, false
		}
		text, sep = lit, arg.At(0).text
	default:
		return nil, false
	}
	if sep == "" {
		return nil, false
	}
	var out []Node
	for _, t := range strings.Split(text, sep) {
		out = append(out, NewString(t))
	}
	return out, true
}

func (s *evaluation) index(n Node) (int, bool) {
	ts := s.eval(n)
	lit, ok := ts[0].Literal()
	if !ok || len(ts) > 1 {
		return 0, false
	}
	i, err := strconv.Atoi(lit)
	return i, err == nil && i >= 0
}

func (s *evaluation) findInMap(arg Node) (string, bool) {
	if s.Template == nil || arg.kind != List || arg.Len() < 3 {
		return "", false
	}
	n := s.Template.Mappings
	for i := range 3 {
		ts := s.eval(arg.At(i))
		key, ok := ts[0].Literal()
		if !ok || len(ts) > 1 {
			return "", false
		}
		if n, ok = n.Get(key); !ok {
			return "", false
		}
	}
	return n.Scalar()
}

// product joins each text of a with each of b, within the bounds.
func product(a, b []Text) []Text {
	out := make([]Text, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, concat(x, y))
		}
	}
	return capped(out)
}

// capped replaces what does not fit by a hole, so that it shows up as unknown instead of vanishing.
func capped(ts []Text) []Text {
	if len(ts) > MaxAlternatives {
		ts = append(ts[:MaxAlternatives-1:MaxAlternatives-1], Text{{Hole: cutAlternatives}})
	}
	return ts
}

// tooLong stands for a text beyond the bounds, whatever is joined to it.
var tooLong = Text{{Hole: cutText}}

func concat(x, y Text) Text {
	if len(x) > 0 && x[0] == tooLong[0] {
		return x
	}
	size := 0
	for _, p := range x {
		size += len(p.Literal)
	}
	for _, p := range y {
		size += len(p.Literal)
	}
	if size > MaxText || len(x)+len(y) > maxParts {
		return tooLong
	}
	out := append(make(Text, 0, len(x)+len(y)), x...)
	for _, p := range y {
		if n := len(out); n > 0 && out[n-1].Hole == "" && p.Hole == "" {
			out[n-1].Literal += p.Literal
			continue
		}
		out = append(out, p)
	}
	return out
}
