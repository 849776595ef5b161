package template

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// MaxDepth is the deepest nesting of lists and objects that a node may have. CloudFormation has no
// published limit; templates in the wild stay under 40.
const MaxDepth = 256

// ErrDepth says that a value nests deeper than MaxDepth.
var ErrDepth = fmt.Errorf("nested deeper than %d levels", MaxDepth)

// ErrDuplicateKey says that a key stands twice in one object. Parsers differ in which of the two they
// keep, so neither is right.
var ErrDuplicateKey = errors.New("key stands twice in one object")

// Kind is what a node holds.
type Kind uint8

// The kinds of JSON.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}

// String names the kind with its article, for error messages.
func (k Kind) String() string { return kindNames[k] }

// Node is one immutable value of a template. The zero Node is null.
type Node struct {
	kind  Kind
	text  string   // Bool, Number, String: as written
	keys  []string // Map: in the order of the file
	items []Node   // List: the elements; Map: the values, beside keys
}

// NewString is a string node.
func NewString(s string) Node { return Node{kind: String, text: s} }

// NewNumber is a number node that keeps its literal, so that 012345678901 stays an account id.
func NewNumber(literal string) Node { return Node{kind: Number, text: literal} }

// NewBool is a boolean node.
func NewBool(b bool) Node { return Node{kind: Bool, text: strconv.FormatBool(b)} }

// NewList is a list node. The node keeps the slice: it must not be changed afterwards.
func NewList(items []Node) Node { return Node{kind: List, items: items} }

// Single is an object with one key, the shape of every intrinsic function.
func Single(key string, value Node) Node {
	return Node{kind: Map, keys: []string{key}, items: []Node{value}}
}

// Kind is what the node holds.
func (n Node) Kind() Kind { return n.kind }

// Len is the number of elements of a list or of keys of an object, else 0.
func (n Node) Len() int { return len(n.items) }

// At is the i-th element of a list or value of an object, 0 ≤ i < Len.
func (n Node) At(i int) Node { return n.items[i] }

// Key is the i-th key of an object, 0 ≤ i < Len.
func (n Node) Key(i int) string { return n.keys[i] }

// Scalar is the text of a string, number or boolean as CloudFormation would use it in a string, and
// whether the node is one of these.
func (n Node) Scalar() (string, bool) {
	return n.text, n.kind == String || n.kind == Number || n.kind == Bool
}

// Str is the text of a string node, and whether it is one.
func (n Node) Str() (string, bool) { return n.text, n.kind == String }

// Get is the value of a key of an object, and whether it is there. Its time is linear in the number
// of keys, which is small everywhere below a template's sections.
func (n Node) Get(key string) (Node, bool) {
	for i, k := range n.keys {
		if k == key {
			return n.items[i], true
		}
	}
	return Node{}, false
}

// Below is the value that keys lead to, one inside of the other, and null when one is not there.
func (n *Node) Below(keys ...string) Node {
	for _, key := range keys {
		i := slices.Index(n.keys, key)
		if i < 0 {
			return Node{}
		}
		n = &n.items[i]
	}
	return *n
}

// GetString is the string under a key, or "".
func (n Node) GetString(key string) string {
	v, _ := n.Get(key)
	s, _ := v.Str()
	return s
}

// MapBuilder collects the keys of an object in order.
type MapBuilder struct {
	node Node
	seen map[string]struct{} // only from smallMap keys on
}

const smallMap = 12

// Add appends a key. It returns ErrDuplicateKey when the key is there already, and changes nothing.
func (b *MapBuilder) Add(key string, value Node) error {
	if len(b.node.keys) < smallMap {
		if _, dup := b.node.Get(key); dup {
			return ErrDuplicateKey
		}
	} else {
		if b.seen == nil {
			b.seen = make(map[string]struct{}, 2*smallMap)
			for _, k := range b.node.keys {
				b.seen[k] = struct{}{}
			}
		}
		if _, dup := b.seen[key]; dup {
			return ErrDuplicateKey
		}
		b.seen[key] = struct{}{}
	}
	b.node.keys = append(b.node.keys, key)
	b.node.items = append(b.node.items, value)
	return nil
}

// Node is the object built. The builder must not be used afterwards.
func (b *MapBuilder) Node() Node {
	b.node.kind = Map
	return b.node
}
