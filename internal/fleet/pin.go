package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrPin means that images cannot be written into a file as it stands.
var ErrPin = errors.New("the images cannot be written into the file")

// ParseUnpinned is Parse for a file in which images may not be pinned yet: the fleet may lack some of ImageKeys.
func ParseUnpinned(file string, data []byte) (*Fleet, error) {
	f, _, err := parsePositions(file, data, true)
	return f, err
}

// ImageKeys are the keys of shard.http.amis that the fleet's cells need, REGION/ARCHITECTURE, sorted; none without
// shard.http.
func (f *Fleet) ImageKeys() []string {
	keys := map[string]bool{}
	if h := f.Shard.HTTP; h != nil {
		for _, c := range f.Cells {
			keys[c.Region+"/"+h.Architecture()] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// Pin returns the file with these images under shard.http.amis, by key. An id takes the place of the one that is there,
// and a key that is not there comes behind the last; every other byte stays. Faults when data is no fleet, ErrPin when
// amis is not written so that its values can be found.
func Pin(file string, data []byte, images map[string]string) ([]byte, error) {
	before, err := ParseUnpinned(file, data)
	if err != nil {
		return nil, err
	}
	if before.Shard.HTTP == nil {
		return nil, fmt.Errorf("%w: the fleet has no shard.http", ErrPin)
	}
	out, err := pinned(data, images)
	if err != nil {
		return nil, err
	}
	// What was written is read back: whatever the positions were worth, only the images changed.
	after, err := ParseUnpinned(file, out)
	if err != nil {
		return nil, fmt.Errorf("%w: with them it would not be a fleet any more: %w", ErrPin, err)
	}
	want := maps.Clone(before.Shard.HTTP.AMIs)
	if want == nil {
		want = map[string]string{}
	}
	maps.Copy(want, images)
	if !maps.Equal(want, after.Shard.HTTP.AMIs) || !sameBut(before, after) {
		return nil, fmt.Errorf("%w: with them it would say something else, too", ErrPin)
	}
	return out, nil
}

// sameBut says whether two fleets differ in their images alone, and in where their notes point.
func sameBut(a, b *Fleet) bool {
	plain := func(f *Fleet) Fleet {
		c := *f
		h := *f.Shard.HTTP
		h.AMIs, c.Shard.HTTP, c.Notes = nil, &h, nil
		return c
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// under is the value of a mapping under a key, nil without one.
func (n *node) under(key string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.pairs {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// pinned writes the images into the file's mapping of them.
func pinned(data []byte, images map[string]string) ([]byte, error) {
	text := newUnixText(data)
	// Read anew with plain line ends, after which the YAML parser's columns are right.
	amis := (&reader{}).read(text.bytes).under("shard").under("http").under("amis")
	if amis == nil || amis.kind != mapping {
		return nil, fmt.Errorf("%w: write shard.http.amis as a mapping, {} to begin with", ErrPin)
	}
	var edits []edit
	there := map[string]bool{}
	for _, p := range amis.pairs {
		there[p.key] = true
		id, asked := images[p.key]
		if !asked || id == p.value.text {
			continue
		}
		from, err := text.find(p.value)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit{from, from + len(p.value.text), id})
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(images)) {
		if !there[key] {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		e, err := text.insert(amis, missing, images)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from }) // from the end, so that places stay
	out := slices.Clone(data)
	for _, e := range edits {
		from := text.origin[e.from]
		out = slices.Replace(out, from, from+e.to-e.from, []byte(e.text)...) // what goes is within a line
	}
	return out, nil
}

// edit puts text in the place of the bytes from and up to to, which are in one line.
type edit struct {
	from, to int
	text     string
}

// unixText is a file whose lines all end in a newline alone.
type unixText struct {
	bytes  []byte
	origin []int  // by byte, and behind the last: where it is in the file
	starts []int  // of each line
	ending string // of the file's first line
}

func newUnixText(data []byte) unixText {
	t := unixText{ending: "\n"}
	start := len(data) - len(bytes.TrimPrefix(data, byteOrderMark))
	t.starts = []int{0}
	for i := start; i < len(data); i++ {
		t.origin = append(t.origin, i)
		if data[i] != '\r' && data[i] != '\n' {
			t.bytes = append(t.bytes, data[i])
			continue
		}
		ending := string(data[i : i+1])
		if bytes.HasPrefix(data[i:], []byte("\r\n")) {
			ending = "\r\n"
			i++
		}
		if len(t.starts) == 1 {
			t.ending = ending
		}
		t.bytes = append(t.bytes, '\n')
		t.starts = append(t.starts, len(t.bytes))
	}
	t.origin = append(t.origin, len(data))
	return t
}

// offset is the byte at a place of the text, the text's end for one behind it.
func (t unixText) offset(at pos) int {
	if at.line > len(t.starts) {
		return len(t.bytes)
	}
	i := t.starts[at.line-1]
	for range at.col - 1 {
		_, size := utf8.DecodeRune(t.bytes[i:])
		i += size
	}
	return i
}

// find is where the text of a value begins, within its quotes.
func (t unixText) find(value *node) (int, error) {
	i := t.offset(value.at)
	if i < len(t.bytes) && (t.bytes[i] == '"' || t.bytes[i] == '\'') {
		i++
	}
	if value.text == "" || !bytes.HasPrefix(t.bytes[i:], []byte(value.text)) {
		return 0, fmt.Errorf("%w: line %d does not have %q as it stands; write it as plain text there", ErrPin, value.at.line, value.text)
	}
	return i, nil
}

// insert adds keys behind the last of a mapping: in braces, or as lines of their own.
func (t unixText) insert(amis *node, keys []string, images map[string]string) (edit, error) {
	pairs := make([]string, len(keys))
	for i, key := range keys {
		pairs[i] = key + ": " + images[key]
	}
	if len(amis.pairs) == 0 {
		open := t.offset(amis.at)
		if open >= len(t.bytes) || t.bytes[open] != '{' {
			return edit{}, fmt.Errorf("%w: write shard.http.amis as {} to begin with", ErrPin)
		}
		return edit{open + 1, open + 1, strings.Join(pairs, ", ")}, nil
	}
	first, last := amis.pairs[0], amis.pairs[len(amis.pairs)-1]
	end, err := t.find(last.value)
	if err != nil {
		return edit{}, err
	}
	end += len(last.value.text)
	line := t.starts[first.at.line-1]
	if indent := t.bytes[line:t.offset(first.at)]; amis.at == first.at && len(bytes.Trim(indent, " ")) == 0 {
		rest, _, _ := bytes.Cut(t.bytes[end:], []byte("\n")) // a quote, a comment
		end += len(rest)
		var lines strings.Builder
		for _, p := range pairs {
			lines.WriteString(t.ending + string(indent) + p)
		}
		return edit{end, end, lines.String()}, nil
	}
	if end < len(t.bytes) && (t.bytes[end] == '"' || t.bytes[end] == '\'') {
		end++
	}
	return edit{end, end, ", " + strings.Join(pairs, ", ")}, nil
}
