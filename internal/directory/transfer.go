package directory

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// FileFormat is how entries stand in a file, one a line.
type FileFormat string

const (
	// CSV begins with a line that names the columns, in any order, of columns. A field with a comma or a
	// quotation mark stands in quotation marks; no field has a line break.
	CSV FileFormat = "csv"
	// JSONLines has an Entry as a JSON object on each line, which names no other fields and none twice.
	JSONLines FileFormat = "jsonl"
)

// maxLine bounds a line of a file, in bytes. The longest entry takes a few thousand.
const maxLine = 64 << 10

// column is one column of CSV.
type column struct {
	name string
	get  func(Entry) string
	set  func(*Entry, string) error
}

// columns are the columns of CSV in the order in which they are written. Pins are separated by spaces.
var columns = []column{
	{"tenant", func(e Entry) string { return e.Tenant }, func(e *Entry, s string) error { e.Tenant = s; return nil }},
	{"cell", func(e Entry) string { return e.Cell }, func(e *Entry, s string) error { e.Cell = s; return nil }},
	{"state", func(e Entry) string { return string(e.State) }, func(e *Entry, s string) error { e.State = State(s); return nil }},
	{"epoch", func(e Entry) string { return strconv.FormatUint(e.Epoch, 10) }, func(e *Entry, s string) error { return whole(&e.Epoch, s) }},
	{"size", func(e Entry) string { return e.Size }, func(e *Entry, s string) error { e.Size = s; return nil }},
	{"pins", func(e Entry) string { return strings.Join(e.Pins, " ") }, func(e *Entry, s string) error { e.Pins = strings.Fields(s); return nil }},
	{"topology", func(e Entry) string { return strconv.FormatUint(e.Topology, 10) }, func(e *Entry, s string) error { return whole(&e.Topology, s) }},
	{"slot", func(e Entry) string { return strconv.FormatUint(e.Slot, 10) }, func(e *Entry, s string) error { return whole(&e.Slot, s) }},
	{"load", func(e Entry) string { return e.Load.String() }, func(e *Entry, s string) (err error) { e.Load, err = parseRate(s); return err }},
	{"internal", func(e Entry) string { return strconv.FormatBool(e.Internal) }, func(e *Entry, s string) (err error) { e.Internal, err = truth(s); return err }},
	{"created", func(e Entry) string { return instant(e.Created) }, func(e *Entry, s string) error { return parseTime(&e.Created, s) }},
	{"updated", func(e Entry) string { return instant(e.Updated) }, func(e *Entry, s string) error { return parseTime(&e.Updated, s) }},
	{"operation", func(e Entry) string { return e.Operation }, func(e *Entry, s string) error { e.Operation = s; return nil }},
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func whole(into *uint64, s string) (err error) {
	if s == "" {
		return nil
	}
	if *into, err = strconv.ParseUint(s, 10, 64); err != nil {
		return fmt.Errorf("%q is no whole number", s)
	}
	return nil
}

func truth(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	}
	return false, fmt.Errorf("%q: want true or false", s)
}

func parseRate(s string) (Rate, error) {
	if s == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of requests per second", s)
	}
	return PerSecond(f)
}

func parseTime(into *time.Time, s string) (err error) {
	if s == "" {
		return nil
	}
	if *into, err = time.Parse(time.RFC3339Nano, s); err != nil {
		return noTime(s)
	}
	*into = into.UTC()
	return nil
}

const exampleTime = "2026-11-30T10:20:30Z"

func noTime(s string) error { return fmt.Errorf("%q is no time: want one like %s", s, exampleTime) }

// Line is one line of a file: an entry, or what is wrong with it.
type Line struct {
	Number int // from 1
	Entry  Entry
	Fault  error // of this line alone
}

// ReadEntries reads a file. Bad lines come with their fault, and reading goes on; empty ones do not come.
// An error, with the line where it happened, is the end: the file cannot be read on, or its first line does
// not name columns. A byte order mark at the beginning is left out, and a line may end as on Windows. A line
// without a state gives an active tenant.
func ReadEntries(r io.Reader, f FileFormat) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := lineReader{buffer: bufio.NewReaderSize(r, maxLine)}
		parse := parseJSON
		switch f {
		case JSONLines:
		case CSV:
			text, err := lines.next()
			switch {
			case err == nil:
				parse, err = header(string(text))
			case err == io.EOF:
				err = errors.New("the file is empty")
			}
			if err != nil {
				yield(Line{Number: 1}, fmt.Errorf("the line with the names of the columns: %w", err))
				return
			}
		default:
			yield(Line{}, fmt.Errorf("file format %q: want %s or %s", f, CSV, JSONLines))
			return
		}
		for {
			text, err := lines.next()
			line := Line{Number: lines.number}
			switch {
			case err == io.EOF:
				return
			case errors.Is(err, errLong):
				line.Fault = err
			case err != nil:
				yield(line, err)
				return
			case len(text) == 0, f == JSONLines && len(bytes.TrimSpace(text)) == 0:
				continue
			default:
				line.Entry, line.Fault = parse(text)
			}
			if line.Fault == nil && line.Entry.State == "" {
				line.Entry.State = Active
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// errLong is the fault of a line that is passed over.
var errLong = fmt.Errorf("it has more than %d bytes, which no tenant takes", maxLine)

// lineReader reads lines of up to maxLine bytes.
type lineReader struct {
	buffer *bufio.Reader // of maxLine bytes
	number int           // of the line that was read last, from 1
}

// next is the next line, without its end, until it is called again. io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	text, err := l.buffer.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.buffer.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		return nil, errLong
	}
	if err != nil && (err != io.EOF || len(text) == 0) {
		return nil, err
	}
	if l.number == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")), nil
}

// header reads the first line of CSV and returns what reads the others.
func header(text string) (func([]byte) (Entry, error), error) {
	split := splitter()
	names, err := split(text)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, c := range columns {
		known = append(known, c.name)
	}
	chosen := make([]column, len(names))
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 || slices.Index(names, name) < i {
			return nil, fmt.Errorf("it names column %q: want each once, of %s", name, strings.Join(known, ","))
		}
		chosen[i] = columns[at]
	}
	if !slices.Contains(names, "tenant") {
		return nil, errors.New("it names no column tenant")
	}
	return func(text []byte) (Entry, error) {
		fields, err := split(string(text))
		if err != nil {
			return Entry{}, err
		}
		if len(fields) != len(chosen) {
			return Entry{}, fmt.Errorf("%d fields, and the first line names %d columns", len(fields), len(chosen))
		}
		var e Entry
		for i, c := range chosen {
			if err := c.set(&e, fields[i]); err != nil {
				return Entry{}, fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		return e, nil
	}, nil
}

// splitter splits lines of CSV, one by one, so that a quotation mark that is not closed spoils one line.
func splitter() func(string) ([]string, error) {
	buffer := bufio.NewReader(nil)
	return func(line string) ([]string, error) {
		buffer.Reset(strings.NewReader(line))
		r := csv.NewReader(buffer) // takes the buffer as its own
		r.FieldsPerRecord = -1
		fields, err := r.Read()
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("byte %d: %w", syntax.Column, syntax.Err)
		}
		return fields, err
	}
}

func parseJSON(text []byte) (Entry, error) {
	if !utf8.Valid(text) || halfPair(text) { // the decoder would mend it, and so make it another's id
		return Entry{}, errors.New("it is not UTF-8")
	}
	if err := checkFields(text); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Entry{}, errors.New("the JSON object ends too early")
	} else if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return Entry{}, plain(err)
	}
	e.Created, e.Updated = e.Created.UTC(), e.Updated.UTC()
	return e, nil
}

// kinds are what the fields of JSON are to be, by the words of columns in CSV where the two differ.
var kinds = map[string]string{
	"epoch": "a whole number", "topology": "a whole number", "slot": "a whole number", "load": "a number of requests per second",
	"pins": "a list of texts", "internal": "true or false",
}

// plain says what is wrong with a value without the names of this program's types.
func plain(err error) error {
	var value *json.UnmarshalTypeError
	var at *time.ParseError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("field %q is a JSON %s: want %s", value.Field, value.Value, cmp.Or(kinds[value.Field], "a text"))
	case errors.As(err, &at):
		return noTime(strings.Trim(at.Value, `"`))
	case strings.HasPrefix(err.Error(), "Time."): // of package time, and of no type of its own
		return fmt.Errorf("field %q or %q is no text: want a time like %s", "created", "updated", exampleTime)
	}
	return err
}

// checkFields says what is wrong with the names in a JSON object, of which the decoder takes any case, and
// the last of two.
func checkFields(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("want one JSON object: %w", cmp.Or(err, errors.New("it is something else")))
	}
	var seen []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		field := name.(string) // of an object
		switch {
		case !slices.ContainsFunc(columns, func(c column) bool { return c.name == field }):
			return fmt.Errorf("unknown field %q", field)
		case slices.Contains(seen, field):
			return fmt.Errorf("field %q stands twice", field)
		}
		seen = append(seen, field)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value stands on the line")
	}
	return nil
}

// halfPair says whether JSON has an escape of one half of a surrogate pair without the other.
func halfPair(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		at := unit(text[i:])
		switch {
		case !utf16.IsSurrogate(at):
			i += 2 // the escaped byte may be another backslash
		case utf16.DecodeRune(at, unit(text[min(i+6, len(text)):])) == utf8.RuneError:
			return true
		default:
			i += 12
		}
		next := bytes.IndexByte(text[min(i, len(text)):], '\\')
		if next < 0 {
			return false
		}
		i += next
	}
	return false
}

// unit is the code unit that text begins with as an escape, or 0.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
