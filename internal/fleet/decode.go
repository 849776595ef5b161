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
	at  map[string]pos  // path of each value that stands in the file
	bad map[string]bool // path of each value that could not be decoded
}

// custom is a type with a YAML form of its own. decode returns false after it has reported a fault.
type custom interface {
	decode(d *decoder, path string, n *node) bool
}

// described is what the struct tags say about a field. The JSON Schema is made from the same tags.
type described struct {
	name     string
	required bool
	min, max *int
	def      string
	enum     []string
}

// describe reads the tags yaml:"name,omitempty" and jsonschema:"minimum=…,maximum=…,default=…,enum=…".
// A field without omitempty is required. ok is false for a field that no file sets.
func describe(f reflect.StructField) (s described, ok bool) {
	name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "" || name == "-" {
		return described{}, false
	}
	s = described{name: name, required: options != "omitempty"}
	for option := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "minimum":
			n, _ := strconv.Atoi(value)
			s.min = &n
		case "maximum":
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

// refuse reports a value of the wrong form and always returns false.
func (d *decoder) refuse(path string, n *node, want, fix string) bool {
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

// value decodes n into v. It marks path as bad and returns false when it cannot.
func (d *decoder) value(path string, n *node, v reflect.Value, s described) bool {
	d.at[path] = n.at
	ok := n.kind != refused && d.typed(path, n, v, s)
	if !ok {
		d.bad[path] = true
	}
	return ok
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
		return d.list(path, n, v)
	case reflect.Map:
		return d.dictionary(path, n, v)
	case reflect.Struct:
		return d.structure(path, n, v)
	}
	return true
}

func (d *decoder) notEmpty(path string, n *node) bool {
	if n.kind == null {
		return d.refuse(path, n, "given when the key is", "write a value, or remove the key")
	}
	return true
}

// text decodes a string. Plain scalars that other YAML readers take for something else are refused:
// 012345678901 is an account id to a person and 1,402,433,...  to many a tool.
func (d *decoder) text(path string, n *node, v reflect.Value, s described) bool {
	switch {
	case n.kind != scalar:
		return d.refuse(path, n, "text", "write one text value")
	case !n.quoted && accountLike(path):
		return d.refuse(path, n, "text, since a number loses its leading zeros", fmt.Sprintf("put the account id in quotes: %q", n.text))
	case !n.quoted && otherThanText(n.text):
		return d.refuse(path, n, "text, and YAML reads this as another type", fmt.Sprintf("put it in quotes: %q", n.text))
	case len(s.enum) > 0 && !slices.Contains(s.enum, n.text):
		fix := "write " + alternatives(s.enum)
		if near := nearest(n.text, s.enum); near != "" {
			fix = fmt.Sprintf("did you mean %s?", near)
		}
		return d.refuse(path, n, alternatives(s.enum), fix)
	case n.text == "":
		return d.refuse(path, n, "given when the key is", "write a value, or remove the key")
	}
	v.SetString(n.text)
	return true
}

// accountLike tells whether the value at path is an account id.
func accountLike(path string) bool { return last(path) == "account" }

// otherThanText tells whether a plain scalar is a number, a truth value or nothing to YAML 1.2.
func otherThanText(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null", "~", ".nan", ".inf", "-.inf", "+.inf":
		return true
	}
	if _, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64); err == nil {
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && strings.Trim(s, "+-.0123456789eE") == ""
}

func (d *decoder) integer(path string, n *node, v reflect.Value, s described) bool {
	digits := strings.TrimPrefix(n.text, "-")
	switch {
	case n.kind != scalar:
		return d.refuse(path, n, "a whole number", "write one number")
	case n.quoted:
		return d.refuse(path, n, "a number, and quotes make it text", "remove the quotes")
	case digits == "" || strings.Trim(digits, "0123456789") != "":
		return d.refuse(path, n, "a whole number", "write decimal digits only")
	case len(digits) > 1 && digits[0] == '0':
		return d.refuse(path, n, "a decimal number, and YAML reads a leading zero as octal", fmt.Sprintf("write %s", strings.TrimLeft(digits[:len(digits)-1], "0")+digits[len(digits)-1:]))
	}
	i, err := strconv.ParseInt(n.text, 10, 32)
	switch {
	case err != nil:
		return d.refuse(path, n, "within ±2,147,483,647", "write a smaller number")
	case s.min != nil && int(i) < *s.min, s.max != nil && int(i) > *s.max:
		return d.refuse(path, n, bounds(s), "write "+bounds(s))
	}
	v.SetInt(i)
	return true
}

// bounds says which numbers are allowed.
func bounds(s described) string {
	switch {
	case s.min != nil && s.max != nil:
		return fmt.Sprintf("%d to %d", *s.min, *s.max)
	case s.min != nil:
		return fmt.Sprintf("at least %d", *s.min)
	}
	return fmt.Sprintf("at most %d", *s.max)
}

func (d *decoder) duration(path string, n *node, v reflect.Value) bool {
	const fix = "write hours and minutes, such as 90m, 1h or 2h30m"
	if n.kind != scalar {
		return d.refuse(path, n, "a duration", fix)
	}
	t, err := time.ParseDuration(n.text)
	switch {
	case err != nil && strings.HasSuffix(n.text, "d"):
		return d.refuse(path, n, "a duration in hours, minutes and seconds", "write days as hours: 1d is 24h")
	case err != nil:
		return d.refuse(path, n, "a duration with its unit", fix)
	case t < 0:
		return d.refuse(path, n, "a duration of at least 0s", fix)
	}
	v.SetInt(int64(t))
	return true
}

func (d *decoder) list(path string, n *node, v reflect.Value) bool {
	if n.kind != sequence {
		return d.refuse(path, n, "a list", fmt.Sprintf("write %s: [...], or a line with - for each item", last(path)))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	ok := true
	for i, item := range n.items {
		ok = d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i), described{}) && ok
	}
	return ok
}

func (d *decoder) dictionary(path string, n *node, v reflect.Value) bool {
	if n.kind != mapping {
		return d.refuse(path, n, "a mapping", "write key: value pairs")
	}
	v.Set(reflect.MakeMap(v.Type()))
	ok := d.noRepetition(path, n)
	for _, p := range n.pairs {
		if path == "accounts" && !p.quoted {
			ok = false
			d.faultAt(join(path, p.key), p.at, fmt.Sprintf("account %s stands without quotes", p.key),
				"a number loses its leading zeros", fmt.Sprintf("put the account id in quotes: %q", p.key))
		}
		e := reflect.New(v.Type().Elem()).Elem()
		ok = d.value(join(path, p.key), p.value, e, described{}) && ok
		// Faults about an entry point to its key: that is what a rule about a dictionary is about.
		d.at[join(path, p.key)+keySuffix] = p.at
		v.SetMapIndex(reflect.ValueOf(p.key), e)
	}
	return ok
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
	for _, p := range n.pairs {
		if slices.Contains(known, p.key) {
			continue
		}
		ok = false
		fix := "write one of " + strings.Join(known, ", ")
		if near := nearest(p.key, known); near != "" {
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
			d.bad[join(path, s.name)] = true
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

// join and last take paths such as cells[1].shards apart.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// subject names a value in a message.
func subject(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// place says where a key stands, in a message.
func place(path string) string {
	if path == "" {
		return "at the top of a fleet file"
	}
	return "in " + path
}

func alternatives(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}
