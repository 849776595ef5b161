package cli

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// filePopulation reads a tenants file; "-" is standard input.
func (a *app) filePopulation(file string, most idLimit) (*population, error) {
	return a.fileColumns(file, most, nil)
}

// fileColumns is filePopulation with further columns.
func (a *app) fileColumns(file string, most idLimit, further []string) (*population, error) {
	if file == "-" {
		return readColumns(a.in, "standard input", most, further)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usagef("cannot read the tenants: %w", err)
	}
	defer f.Close()
	return readColumns(f, file, most, further)
}

// populationHeader is the first line of a tenants file with loads.
const populationHeader = "tenant,load"

// planColumns are what may follow in a population for plan.
var planColumns = []string{"size", "pins", "cell"}

// readPopulation reads one tenant a line, or, when the first line is the header tenant,load, CSV as in
// RFC 4180 with one record a line. Lines end in LF or CRLF. Nothing else is cut off: an id is exactly
// the bytes that a token carries. Every error has status 2 and names the line.
func readPopulation(r io.Reader, name string, most idLimit) (*population, error) {
	return readColumns(r, name, most, nil)
}

// readColumns is readPopulation with a header that may name further columns of these.
func readColumns(r io.Reader, name string, most idLimit, further []string) (*population, error) {
	p := &population{most: most, file: name, first: 1}
	lines := bufio.NewReaderSize(r, most.line())
	var columns []string // after the tenant's
	for n := 1; ; n++ {
		line, err := populationLine(lines, most)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, usagef("%s:%d: %w", name, n, err)
		}
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // the byte order mark that spreadsheets write
			if columns = headerColumns(line, further); columns != nil {
				p.begin(columns)
				continue
			}
			if looksLikeHeader(line) {
				return nil, usagef("%s:1: the header is %q: write %q%s", name, line, populationHeader, orFurther(further))
			}
		}
		if err := p.addLine(line, columns); err != nil {
			return nil, usagef("%s:%d: %w", name, n, err)
		}
	}
	if len(p.tenants) == 0 {
		return nil, usagef("%s has no tenants: write one a line, or CSV with the header %s", name, populationHeader)
	}
	return p, nil
}

// headerColumns is the columns after the tenant's, nil when the line is no header.
func headerColumns(line string, further []string) []string {
	columns := strings.Split(line, ",")
	if len(columns) < 2 || columns[0]+","+columns[1] != populationHeader {
		return nil
	}
	for i, c := range columns[2:] {
		if !slices.Contains(further, c) || slices.Contains(columns[:2+i], c) {
			return nil
		}
	}
	return columns[1:]
}

func orFurther(further []string) string {
	if further == nil {
		return ""
	}
	return ", and after it any of " + strings.Join(further, ", ") + ", each once"
}

// begin is the header: records follow from line 2 on.
func (p *population) begin(columns []string) {
	p.first, p.loads = 2, []float64{}
	if slices.Contains(columns, "size") {
		p.sizes = []uint16{}
	}
	if slices.Contains(columns, "cell") {
		p.cells = []uint16{}
	}
}

// populationLine reads a line without its end. io.EOF means that there is none left.
func populationLine(r *bufio.Reader, most idLimit) (string, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("the line is longer than %d bytes: a tenants file has one tenant a line, with an id of at most %d bytes", most.line(), most)
	case errors.Is(err, io.EOF) && len(line) > 0: // the last line may lack its end
	case err != nil:
		return "", err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	return string(line), nil
}

// looksLikeHeader tells a header that is not quite right from a tenant, so that it is not taken for one.
func looksLikeHeader(line string) bool {
	plain := strings.NewReplacer(" ", "", `"`, "", ";", ",", "\t", ",").Replace(strings.ToLower(line))
	return strings.HasPrefix(plain, "tenant,") || plain == "load,tenant"
}

func (p *population) addLine(line string, columns []string) error {
	if columns == nil {
		return p.add(line)
	}
	id, rest, err := firstField(line)
	if err != nil {
		return err
	}
	fields := []string{rest}
	if len(columns) > 1 {
		if fields, err = furtherFields(rest); err != nil {
			return err
		}
		if len(fields) != len(columns) {
			return fmt.Errorf("the line has %d fields, and the header %d: write tenant,%s", len(fields)+1, len(columns)+1, strings.Join(columns, ","))
		}
	}
	load, err := parseLoad(fields[0])
	if err != nil {
		return err
	}
	i := len(p.tenants)
	if err := p.add(id); err != nil {
		return err
	}
	p.loads = append(p.loads, load)
	for j, c := range columns[1:] {
		if err := p.addField(i, c, fields[1+j]); err != nil {
			return err
		}
	}
	return nil
}

// addField adds a further field of the tenant at i.
func (p *population) addField(i int, column, text string) error {
	if column == "pins" {
		if pins := strings.Fields(text); len(pins) > 0 {
			for j, pin := range pins {
				if slices.Contains(pins[:j], pin) {
					return fmt.Errorf("the tenant is pinned to shard %q twice: name it once", pin)
				}
			}
			if p.pins == nil {
				p.pins = map[int][]string{}
			}
			p.pins[i] = pins
		}
		return nil
	}
	w, err := p.word(text)
	if err != nil {
		return fmt.Errorf("%s %w", column, err)
	}
	if column == "size" {
		p.sizes = append(p.sizes, w)
	} else {
		p.cells = append(p.cells, w)
	}
	return nil
}

// furtherFields splits the fields after the first one.
func furtherFields(text string) ([]string, error) {
	if !strings.Contains(text, `"`) {
		return strings.Split(text, ","), nil
	}
	r := csv.NewReader(strings.NewReader(text))
	fields, err := r.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, fmt.Errorf("in %q: %w", text, parse.Err)
	}
	return fields, err
}

// firstField splits a CSV record into its first field, unquoted, and the rest after the comma. The
// record must have two fields.
func firstField(line string) (field, rest string, err error) {
	var ok bool
	if !strings.HasPrefix(line, `"`) {
		if field, rest, ok = strings.Cut(line, ","); !ok {
			return "", "", errors.New("the load is missing: write tenant,load")
		}
		if strings.Contains(field, `"`) {
			return "", "", fmt.Errorf(`quote inside %s: write the whole id in quotes, and each quote in it twice`, field)
		}
		return field, rest, nil
	}
	var b strings.Builder
	for rest = line[1:]; ; {
		var part string
		if part, rest, ok = strings.Cut(rest, `"`); !ok {
			return "", "", errors.New(`the quote before the id is not closed on this line: close it with another`)
		}
		b.WriteString(part)
		if !strings.HasPrefix(rest, `"`) {
			break
		}
		b.WriteByte('"') // two quotes are one
		rest = rest[1:]
	}
	if rest, ok = strings.CutPrefix(rest, ","); !ok {
		return "", "", errors.New("the load is missing after the quoted id: write \"tenant\",load")
	}
	return b.String(), rest, nil
}

// parseLoad reads a load: a decimal number, not negative, possibly quoted.
func parseLoad(text string) (float64, error) {
	const want = "write a number of 0 or more, as 24861 or 0.5"
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if text == "" {
		return 0, fmt.Errorf("the load is missing: %s", want)
	}
	// ParseFloat knows more than decimal numbers: hexadecimal ones, underscores, Inf and NaN.
	if i := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) }); i >= 0 {
		return 0, fmt.Errorf("the load %q is not a number: %s", text, want)
	}
	load, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("the load %q is beyond all numbers: %s", text, want)
	case err != nil:
		return 0, fmt.Errorf("the load %q is not a number: %s", text, want)
	case math.Signbit(load):
		return 0, fmt.Errorf("the load %q is negative: %s", text, want)
	}
	return load, nil
}
