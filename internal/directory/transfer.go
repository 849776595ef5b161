package directory

import (
	"bufio"
	"bytes"
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
	"unicode/utf8"
)

// FileFormat is how entries stand in a file, one a line.
type FileFormat string

const (
	// CSV begins with a line that names the columns, in any order, of columns. A field with a comma or a
	// quotation mark stands in quotation marks; no field has a line break.
	CSV FileFormat = "csv"
	// JSONLines has an Entry as JSON on each line, which names no other fields.
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
		return fmt.Errorf("%q is no time: want one like 2026-11-30T10:20:30Z", s)
	}
	*into = into.UTC()
	return nil
}

// Line is one line of a file: an entry, or what is wrong with it.
type Line struct {
	Number int // from 1
	Entry  Entry
	Fault  error // of this line alone
}

// ReadEntries reads a file. Bad lines come with their fault, and reading goes on; empty ones do not come.
// An error, with the line where it happened, is the end: the file cannot be read on, or its first line does
// not name columns. A line without a state gives an active tenant.
func ReadEntries(r io.Reader, f FileFormat) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), maxLine)
		number := 0
		parse := parseJSON
		switch f {
		case JSONLines:
		case CSV:
			number++
			lines.Scan()
			var err error
			if parse, err = header(lines.Text()); err != nil {
				yield(Line{Number: number}, errors.Join(err, lines.Err()))
				return
			}
		default:
			yield(Line{}, fmt.Errorf("file format %q: want %s or %s", f, CSV, JSONLines))
			return
		}
		for lines.Scan() {
			number++
			text := lines.Bytes()
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			line := Line{Number: number}
			if line.Entry, line.Fault = parse(text); line.Fault == nil && line.Entry.State == "" {
				line.Entry.State = Active
			}
			if !yield(line, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Line{Number: number + 1}, fmt.Errorf("line %d has more than %d bytes: this is no file of tenants", number+1, maxLine))
		} else if err != nil {
			yield(Line{Number: number + 1}, err)
		}
	}
}

// header reads the first line of CSV and returns what reads the others.
func header(text string) (func([]byte) (Entry, error), error) {
	split := splitter()
	names, err := split(strings.TrimPrefix(text, "\ufeff")) // a spreadsheet's byte order mark
	if err != nil {
		return nil, fmt.Errorf("the line with the names of the columns: %w", err)
	}
	var known []string
	for _, c := range columns {
		known = append(known, c.name)
	}
	chosen := make([]column, len(names))
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 || slices.Index(names, name) < i {
			return nil, fmt.Errorf("the first line names column %q: want each once, of %s", name, strings.Join(known, ","))
		}
		chosen[i] = columns[at]
	}
	if !slices.Contains(names, "tenant") {
		return nil, errors.New("the first line names no column tenant")
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
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("byte %d: %w", syntax.Column, syntax.Err)
		}
		return fields, err
	}
}

func parseJSON(text []byte) (Entry, error) {
	if !utf8.Valid(text) { // the decoder would mend it
		return Entry{}, errors.New("it is not UTF-8")
	}
	var e Entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Entry{}, errors.New("more than one JSON value stands on the line")
	}
	return e, nil
}
