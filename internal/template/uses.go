package template

import (
	"strconv"
	"strings"
)

// UseKind says in what way a value refers to something outside itself.
type UseKind uint8

// The ways to refer. Text is every maximal expression that yields a string, literals included: names
// and ARNs hide there.
const (
	UseRef         UseKind = iota // Name: logical id, parameter or pseudo parameter
	UseGetAtt                     // Name: logical id; Attr: attribute
	UseImport                     // Node: the export's name
	UseStackOutput                // Node: the arguments of Fn::GetStackOutput
	UseCondition                  // Name: the condition
	UseText                       // Node: the expression
	UseMacro                      // Name: an intrinsic function that is unknown, malformed or a macro
)

// Use is one reference. Path leads to it from the value that was walked, without intrinsic functions;
// it is valid during the visit only.
type Use struct {
	Kind       UseKind
	Name, Attr string
	Node       Node
	Path       []string
}

// Uses visits every reference of a value, depth first in the order of the file.
func Uses(n Node, visit func(Use)) { new(Walker).Uses(n, visit) }

// Walker visits references as Uses does, and keeps its memory for the next value. A visit must not use the walker.
type Walker struct {
	visit func(Use)
	path  []string
}

// Uses visits every reference of a value, depth first in the order of the file.
func (w *Walker) Uses(n Node, visit func(Use)) {
	if n.kind == Null {
		return
	}
	if w.path == nil {
		w.path = make([]string, 0, 8)
	}
	w.visit, w.path = visit, w.path[:0]
	w.walk(n, false)
}

// Strings calls visit with each string of a value, those inside of intrinsic functions included.
func Strings(n Node, visit func(string)) { n.strings(visit) }

func (n *Node) strings(visit func(string)) {
	if n.kind == String {
		visit(n.text)
	}
	for i := range n.items {
		n.items[i].strings(visit)
	}
}

func (w *Walker) emit(k UseKind, name, attr string, n Node) {
	w.visit(Use{k, name, attr, n, w.path})
}

// walk visits n. Inside a text its strings are part of that text and not texts of their own.
func (w *Walker) walk(n Node, inText bool) {
	switch n.kind {
	case String:
		if !inText {
			w.emit(UseText, "", "", n)
		}
	case List:
		for i := range n.items {
			w.path = append(w.path, strconv.Itoa(i))
			w.walk(n.items[i], inText)
			w.path = w.path[:len(w.path)-1]
		}
	case Map:
		if fn, arg, ok := intrinsic(n); ok {
			w.function(fn, arg, n, inText)
			return
		}
		for i := range n.items {
			w.path = append(w.path, n.keys[i])
			w.walk(n.items[i], inText)
			w.path = w.path[:len(w.path)-1]
		}
	}
}

// intrinsic takes an intrinsic function apart. An IAM statement's Condition holds an object and is
// none.
func intrinsic(n Node) (fn string, arg Node, ok bool) {
	if n.kind != Map || len(n.keys) != 1 {
		return "", Node{}, false
	}
	key := n.keys[0]
	if key == "Ref" || strings.HasPrefix(key, "Fn::") || key == "Condition" && n.items[0].kind == String {
		return key, n.items[0], true
	}
	return "", Node{}, false
}

func (w *Walker) function(fn string, arg, whole Node, inText bool) {
	text := func() {
		if !inText {
			w.emit(UseText, "", "", whole)
		}
	}
	switch fn {
	case "Ref":
		name, ok := arg.Str()
		if !ok {
			w.emit(UseMacro, fn, "", arg)
			return
		}
		text()
		w.emit(UseRef, name, "", arg)
	case "Condition":
		w.emit(UseCondition, arg.text, "", arg)
	case "Fn::GetAtt":
		name, attr, ok := getAtt(arg)
		if !ok {
			w.emit(UseMacro, fn, "", arg)
			return
		}
		w.emit(UseGetAtt, name, attr, arg)
	case "Fn::Sub":
		s, vars, ok := subArgs(arg)
		if !ok {
			w.emit(UseMacro, fn, "", arg)
			return
		}
		text()
		w.sub(s, vars)
	case "Fn::ImportValue":
		w.emit(UseImport, "", "", arg)
		w.walk(arg, true)
	case "Fn::GetStackOutput":
		w.emit(UseStackOutput, "", "", arg)
		w.walk(arg, true)
	case "Fn::If":
		if arg.kind != List || arg.Len() != 3 {
			w.emit(UseMacro, fn, "", arg)
			return
		}
		if name, ok := arg.At(0).Str(); ok {
			w.emit(UseCondition, name, "", arg)
		}
		w.walk(arg.At(1), inText) // which branch holds is known at deployment only: both count
		w.walk(arg.At(2), inText)
	case "Fn::Join", "Fn::Select", "Fn::Split", "Fn::FindInMap", "Fn::Base64":
		text()
		w.walk(arg, true)
	case "Fn::GetAZs", "Fn::Cidr", "Fn::Length", "Fn::ToJsonString", "Fn::Equals", "Fn::And", "Fn::Or",
		"Fn::Not", "Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::RefAll",
		"Fn::ValueOf", "Fn::ValueOfAll":
		w.walk(arg, inText)
	default:
		w.emit(UseMacro, fn, "", arg)
		w.walk(arg, inText)
	}
}

// sub visits the variables of an Fn::Sub that its own map does not define, and the map's values.
func (w *Walker) sub(s string, vars Node) {
	for part := range subParts(s) {
		if part.Var == "" {
			continue
		}
		if _, own := vars.Get(part.Var); own {
			continue
		}
		if name, attr, dotted := strings.Cut(part.Var, "."); dotted {
			w.emit(UseGetAtt, name, attr, Node{})
		} else {
			w.emit(UseRef, name, "", Node{})
		}
	}
	for i := range vars.Len() {
		w.walk(vars.At(i), true)
	}
}

// getAtt reads both forms of Fn::GetAtt: ["Id", "Attr"] and "Id.Attr". An attribute that is itself an
// expression reads as "".
func getAtt(arg Node) (name, attr string, ok bool) {
	if s, isString := arg.Str(); isString {
		name, attr, ok = strings.Cut(s, ".")
		return name, attr, ok
	}
	if arg.kind != List || arg.Len() < 2 {
		return "", "", false
	}
	name, ok = arg.At(0).Str()
	attrs := make([]string, 0, arg.Len()-1)
	for i := 1; i < arg.Len(); i++ {
		a, _ := arg.At(i).Str()
		attrs = append(attrs, a)
	}
	return name, strings.Join(attrs, "."), ok
}

// subArgs reads both forms of Fn::Sub: "text" and ["text", {name: value}].
func subArgs(arg Node) (s string, vars Node, ok bool) {
	if s, ok := arg.Str(); ok {
		return s, Node{}, true
	}
	if arg.kind != List || arg.Len() == 0 || arg.Len() > 2 {
		return "", Node{}, false
	}
	s, ok = arg.At(0).Str()
	if arg.Len() == 2 {
		vars = arg.At(1)
		ok = ok && vars.kind == Map
	}
	return s, vars, ok
}
