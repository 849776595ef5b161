package template

import (
	"slices"
	"strings"
)

// samGlobals are the sections of a SAM template's Globals and the type that each is for.
var samGlobals = map[string]string{
	"Function":     "AWS::Serverless::Function",
	"Api":          "AWS::Serverless::Api",
	"HttpApi":      "AWS::Serverless::HttpApi",
	"SimpleTable":  "AWS::Serverless::SimpleTable",
	"StateMachine": "AWS::Serverless::StateMachine",
	"LayerVersion": "AWS::Serverless::LayerVersion",
}

// applyGlobals gives each resource the properties that the SAM transform would give it from Globals.
func (p *parser) applyGlobals(root Node) {
	isSAM := func(t string) bool { return strings.HasPrefix(t, "AWS::Serverless-") }
	globals, ok := root.Get("Globals")
	if !ok || globals.Kind() == Null || !slices.ContainsFunc(p.t.Transforms, isSAM) {
		return
	}
	if globals.Kind() != Map {
		p.fault("Globals", globals, Map)
		return
	}
	for i := range globals.Len() {
		typ, values := samGlobals[globals.Key(i)], globals.At(i)
		if typ == "" || values.Kind() == Null {
			continue
		}
		if values.Kind() != Map {
			p.fault("Globals."+globals.Key(i), values, Map)
			continue
		}
		for j := range p.t.Resources {
			if r := &p.t.Resources[j]; r.Type == typ {
				r.Properties = inherit(values, r.Properties)
			}
		}
	}
}

// inherit merges as SAM does: objects key by key, lists one after the other, anything else is the
// resource's own where it has one.
func inherit(global, own Node) Node {
	_, _, globalFn := intrinsic(global)
	_, _, ownFn := intrinsic(own)
	switch {
	case own.Kind() == Null:
		return global
	case globalFn || ownFn || global.Kind() != own.Kind():
		return own
	case own.Kind() == List:
		return NewList(slices.Concat(global.items, own.items))
	case own.Kind() != Map:
		return own
	}
	n := Node{kind: Map, keys: slices.Clone(global.keys), items: slices.Clone(global.items)}
	at := make(map[string]int, len(n.keys))
	for i, key := range n.keys {
		at[key] = i
	}
	for i, key := range own.keys {
		if j, ok := at[key]; ok {
			n.items[j] = inherit(global.items[j], own.items[i])
			continue
		}
		n.keys, n.items = append(n.keys, key), append(n.items, own.items[i])
	}
	return n
}
