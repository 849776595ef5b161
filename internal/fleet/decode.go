package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills Go values from nodes, strictly, and goes on after each fault. It remembers where each
// value stands, so that the rules can point there.
type decoder struct {
	*reader
	at     map[string]pos    // path of each value that stands in the file
	bad    map[string]bool   // path of each value that could not be decoded
	below  map[string]bool   // path of each value that is bad or contains a bad one
	badKey map[string]bool   // path of each entry of a dictionary whose key is malformed
	texts  map[string]string // text of each scalar that was refused, by path
}

// custom is a type with a YAML form of its own. decode returns false after it has reported a fault.
type custom interface {
	decode(d *decoder, path string, n *node) bool
}

// described is what the struct tags say about a field. The JSON Schema is made from the same tags.
type described struct {
	name     string
	required bool
	min, max *int // of a number, or of the items of a list
	def      string
	enum     []string
	shape    string // of a text, a list's items, a dictionary's values
	keys     string // shape of a dictionary's keys
}

// describe reads the tags yaml:"name,omitempty" and jsonschema:"minimum=…,maximum=…,default=…,enum=…".
// A field without omitempty is required. ok is false for a field that no file sets.
func describe(f reflect.StructField) (s described, ok bool) {
	name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "" || name == "-" {
		return described{}, false
	}
	s = described{name: name, required: options != "omitempty", shape: f.Tag.Get("shape"), keys: f.Tag.Get("keys")}
	for option := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "minimum", "minItems":
			n, _ := strconv.Atoi(value)
			s.min = &n
		case "maximum", "maxItems":
			n, _ := strconv.Atoi(value)
			s.max = &n
		case "default":
			s.def = value
		case "enum":
			s.enum = append(s.enum, value)
		}
	}
	return s, true
}

func (d *decoder) faultAt(path string, at pos, what, why, fix string) {
	d.faults = append(d.faults, Fault{File: d.file, Line: at.line, Col: at.col, Path: path, What: what, Why: why, Fix: fix})
}

// refuse reports a value of the wrong form, marks it as unknown and always returns false.
func (d *decoder) refuse(path string, n *node, want, fix string) bool {
	d.spoil(path)
	if n.kind == scalar {
		d.texts[path] = n.text
	}
	d.faultAt(path, n.at, fmt.Sprintf("%s is %s", subject(path), n.shown()), "it must be "+want, fix)
	return false
}

// shown is the node in a message, with its text as far as it is short.
func (n *node) shown() string {
	switch n.kind {
	case null:
		return "empty"
	case mapping:
		return "a mapping"
	case sequence:
		return "a list"
	}
	return quote(n.text)
}

// quote is text in a message: quoted, escaped and of bounded length.
func quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return strconv.Quote(text)
}

// value decodes n into v and returns false when something in it is wrong.
func (d *decoder) value(path string, n *node, v reflect.Value, s described) bool {
	d.at[path] = n.at
	if n.kind == refused {
		d.spoil(path)
		return false
	}
	return d.typed(path, n, v, s)
}

// spoil marks path as a value that is not known.
func (d *decoder) spoil(path string) {
	d.bad[path] = true
	for {
		d.below[path] = true
		if path == "" {
			return
		}
		path = parent(path)
	}
}

// known tells whether the values at the paths were decoded, all that they contain included.
func (d *decoder) known(paths ...string) bool {
	for _, path := range paths {
		if d.below[path] {
			return false
		}
		for path != "" {
			path = parent(path)
			if d.bad[path] {
				return false
			}
		}
	}
	return true
}

// decoded tells whether the value at path itself was decoded, whatever may be wrong in it.
func (d *decoder) decoded(path string) bool {
	for ; ; path = parent(path) {
		if d.bad[path] {
			return false
		}
		if path == "" {
			return true
		}
	}
}

func (d *decoder) typed(path string, n *node, v reflect.Value, s described) bool {
	if c, ok := v.Addr().Interface().(custom); ok {
		return d.notEmpty(path, n) && c.decode(d, path, n)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		if n.kind == null && v.Type().Elem().Kind() == reflect.Struct {
			return d.refuse(path, n, "a mapping", fmt.Sprintf("write %s: {} to switch it on with its defaults, or remove the key", last(path)))
		}
		return d.typed(path, n, v.Elem(), s)
	}
	if !d.notEmpty(path, n) {
		return false
	}
	switch v.Interface().(type) {
	case time.Duration:
		return d.duration(path, n, v)
	}
	switch v.Kind() {
	case reflect.String:
		return d.text(path, n, v, s)
	case reflect.Int:
		return d.integer(path, n, v, s)
	case reflect.Bool:
		if n.kind != scalar || n.quoted || n.text != "true" && n.text != "false" {
			return d.refuse(path, n, "true or false", "write true or false, without quotes")
		}
		v.SetBool(n.text == "true")
	case reflect.Slice:
		return d.list(path, n, v, s)
	case reflect.Map:
		return d.dictionary(path, n, v, s)
	case reflect.Struct:
		return d.structure(path, n, v)
	}
	return true
}

func (d *decoder) notEmpty(path string, n *node) bool {
	if n.kind != null {
		return true
	}
	d.spoil(path)
	d.faultAt(path, n.at, subject(path)+" is empty", "a key needs a value", "write one, or remove the key")
	return false
}

func (d *decoder) list(path string, n *node, v reflect.Value, s described) bool {
	if n.kind != sequence {
		return d.refuse(path, n, "a list", fmt.Sprintf("write %s: [...], or a line with - for each item", last(path)))
	}
	if count := len(n.items); s.min != nil && count < *s.min || s.max != nil && count > *s.max {
		return d.refuse(path, n, fmt.Sprintf("of %s items, and has %d", bounds(s), count), "add or remove items")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	ok := true
	for i, item := range n.items {
		ok = d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i), described{shape: s.shape}) && ok
	}
	return ok
}

func (d *decoder) dictionary(path string, n *node, v reflect.Value, s described) bool {
	if n.kind != mapping {
		return d.refuse(path, n, "a mapping", "write key: value pairs")
	}
	v.Set(reflect.MakeMap(v.Type()))
	ok := d.noRepetition(path, n)
	for _, p := range n.pairs {
		at := entry(path, p.key)
		d.at[at+keySuffix] = p.at
		ok = d.key(at, p, s) && ok
		e := reflect.New(v.Type().Elem()).Elem()
		ok = d.value(at, p.value, e, described{shape: s.shape}) && ok
		v.SetMapIndex(reflect.ValueOf(p.key), e)
	}
	return ok
}

// key checks the key of a dictionary. A key of the wrong shape spoils its value, too.
func (d *decoder) key(path string, p pair, s described) bool {
	shape, shaped := shapes[s.keys]
	switch {
	case s.keys == "account" && !p.quoted && allDigits(p.key):
		d.faultAt(path, p.at, fmt.Sprintf("key %s %s has no quotes", p.key, place(parent(path))),
			"an account id is text, since a number loses its leading zeros", fmt.Sprintf("put it in quotes: %q", p.key))
	case shaped && !shape.pattern.MatchString(p.key):
		d.faultAt(path, p.at, fmt.Sprintf("key %s %s", quote(p.key), place(parent(path))), "it must be "+shape.want, shape.fix(p.key))
	default:
		return true
	}
	d.spoil(path)
	d.badKey[path] = true
	return false
}

// keySuffix marks the position of a dictionary's key, beside that of its value.
const keySuffix = "\x00key"

// structure decodes the keys that stand in the file and then sees to those that do not.
func (d *decoder) structure(path string, n *node, v reflect.Value) bool {
	if n.kind != mapping {
		return d.refuse(path, n, "a mapping", "write key: value pairs")
	}
	ok := d.noRepetition(path, n)
	var known []string
	for f := range v.Type().Fields() {
		if s, set := describe(f); set {
			known = append(known, s.name)
		}
	}
	meant := map[string]bool{} // keys that an unknown one probably stands for
	for _, p := range n.pairs {
		if slices.Contains(known, p.key) {
			continue
		}
		ok = false
		fix := "write one of " + strings.Join(known, ", ")
		if near := nearest(p.key, known); near != "" {
			meant[near] = true
			fix = fmt.Sprintf("did you mean %s?", near)
		} else if len(known) == 0 {
			fix = "write {}"
		}
		d.faultAt(join(path, p.key), p.at, fmt.Sprintf("unknown key %s", quote(p.key)), "nothing reads it "+place(path), fix)
	}
	for f, field := range v.Fields() {
		s, set := describe(f)
		if !set {
			continue
		}
		i := slices.IndexFunc(n.pairs, func(p pair) bool { return p.key == s.name })
		switch {
		case i >= 0:
			ok = d.value(join(path, s.name), n.pairs[i].value, field, s) && ok
		case s.required:
			ok = false
			d.spoil(join(path, s.name))
			if meant[s.name] {
				continue
			}
			d.faultAt(join(path, s.name), n.at, fmt.Sprintf("%s is missing", s.name), "it is required "+place(path), fmt.Sprintf("add %s: …", s.name))
		default:
			d.absent(join(path, s.name), field, s)
		}
	}
	return ok
}

// absent fills the defaults below a key that does not stand in the file.
func (d *decoder) absent(path string, v reflect.Value, s described) {
	switch {
	case s.def != "" && v.Kind() == reflect.String:
		v.SetString(s.def)
	case s.def != "" && v.Kind() == reflect.Int:
		n, _ := strconv.Atoi(s.def)
		v.SetInt(int64(n))
	case v.Kind() == reflect.Struct:
		for f, field := range v.Fields() {
			if s, set := describe(f); set {
				d.absent(join(path, s.name), field, s)
			}
		}
	}
}

func (d *decoder) noRepetition(path string, n *node) bool {
	ok := true
	first := map[string]pos{}
	for _, p := range n.pairs {
		if at, twice := first[p.key]; twice {
			ok = false
			d.faultAt(join(path, p.key), p.at, fmt.Sprintf("key %s stands twice", quote(p.key)),
				fmt.Sprintf("it was given in line %d already, and one of the two would be lost", at.line), "keep one of them")
			continue
		}
		first[p.key] = p.at
	}
	return ok
}
