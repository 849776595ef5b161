package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a fleet file.
type Fault struct {
	File string `json:"file"` // as given to Load or Parse
	Line int    `json:"line"` // from 1
	Col  int    `json:"col"`  // in characters, from 1
	// Path names the value in the file's own keys: cells[1].shards.
	Path string `json:"path,omitempty"`
	What string `json:"what"` // what is wrong, with the offending text
	Why  string `json:"why"`  // the rule that it breaks
	Fix  string `json:"fix"`  // what to write instead
}

// Error returns the fault in one line: file:line:col: what: why; what to write instead. A fleet that was read from
// no file has no place.
func (f Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s; %s", f.What, f.Why, f.Fix)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s; %s", f.File, f.Line, f.Col, f.What, f.Why, f.Fix)
}

// Faults are all that is wrong with one fleet file, in the order of their positions. It is the error
// that Parse returns, and Load too once the file could be read.
type Faults []Fault

// Error returns a line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the faults by position, without repetitions. Positions that the YAML parser gives for
// what is missing at the end of a line or file are drawn back into the file.
func (fs Faults) sorted(data []byte) Faults {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(bytes.TrimPrefix(data, byteOrderMark)))
	lines := strings.Split(text, "\n")
	for i := range fs {
		f := &fs[i]
		if f.Line > len(lines) {
			f.Line, f.Col = len(lines), math.MaxInt
		}
		f.Col = min(f.Col, utf8.RuneCountInString(lines[f.Line-1])+1)
	}
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.Compact(fs)
}
