package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// population is the tenants that a command is about, each once, in the order in which they were given.
type population struct {
	tenants []string
	loads   []float64      // parallel to tenants; nil when the tenants came without loads
	most    idLimit        // of each id
	where   map[string]int // the line, or the argument, that named the tenant
}

// populationHeader is the first line of a tenants file with loads.
const populationHeader = "tenant,load"

// idLimit is the most bytes that an id may have.
type idLimit int

// A directory takes ids of up to 128 bytes. Placement itself is defined for ids of any length, so that
// what only computes takes longer ones; the bound is for what is no id at all.
const (
	directoryID idLimit = 128
	placementID idLimit = 4096
)

// line bounds a line in bytes: an id is twice as long when it is all quotes, and a load needs a few; what
// is longer is no tenants file.
func (most idLimit) line() int { return 2*int(most) + 768 }

// noteLong says once on w that tenants have ids that no directory takes.
func (p *population) noteLong(w io.Writer) {
	long := 0
	for _, id := range p.tenants {
		if len(id) > int(directoryID) {
			long++
		}
	}
	if long > 0 {
		fmt.Fprintf(w, "note: %s of more than %d bytes: placement takes them, a cell's directory takes ids of 1 to %d bytes\n", count(long, "id"), directoryID, directoryID)
	}
}

// namedPopulation is the tenants of the command line, without loads.
func namedPopulation(args []string, most idLimit) (*population, error) {
	p := &population{most: most, where: make(map[string]int, len(args))}
	for i, id := range args {
		if err := p.add(id, i+1); err != nil {
			return nil, usagef("argument %d: %w", i+1, err)
		}
	}
	return p, nil
}

// filePopulation reads a tenants file; "-" is standard input.
func (a *app) filePopulation(file string, most idLimit) (*population, error) {
	if file == "-" {
		return readPopulation(a.in, "standard input", most)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usagef("cannot read the tenants: %w", err)
	}
	defer f.Close()
	return readPopulation(f, file, most)
}

// readPopulation reads one tenant a line, or, when the first line is the header tenant,load, CSV as in
// RFC 4180 with one record a line. Lines end in LF or CRLF. Nothing else is cut off: an id is exactly
// the bytes that a token carries. Every error has status 2 and names the line.
func readPopulation(r io.Reader, name string, most idLimit) (*population, error) {
	p := &population{most: most, where: make(map[string]int)}
	lines := bufio.NewReaderSize(r, most.line())
	withLoads := false
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
			if line == populationHeader {
				withLoads, p.loads = true, []float64{}
				continue
			}
			if looksLikeHeader(line) {
				return nil, usagef("%s:1: the header is %q: write %q", name, line, populationHeader)
			}
		}
		if err := p.addLine(line, n, withLoads); err != nil {
			return nil, usagef("%s:%d: %w", name, n, err)
		}
	}
	if len(p.tenants) == 0 {
		return nil, usagef("%s has no tenants: write one a line, or CSV with the header %s", name, populationHeader)
	}
	return p, nil
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

func (p *population) addLine(line string, n int, withLoad bool) error {
	if !withLoad {
		return p.add(line, n)
	}
	id, rest, err := firstField(line)
	if err != nil {
		return err
	}
	load, err := parseLoad(rest)
	if err != nil {
		return err
	}
	if err := p.add(id, n); err != nil {
		return err
	}
	p.loads = append(p.loads, load)
	return nil
}

// add adds a tenant; at is the line or argument that names it.
func (p *population) add(id string, at int) error {
	if id == "" {
		return fmt.Errorf("the tenant's id is empty: write 1 to %d bytes of UTF-8", p.most)
	}
	if len(id) > int(p.most) {
		return fmt.Errorf("the tenant's id is %d bytes long: write 1 to %d bytes of UTF-8", len(id), p.most)
	}
	if !utf8.ValidString(id) {
		return fmt.Errorf("the tenant's id is %q, not valid UTF-8: write 1 to %d bytes of UTF-8", id, p.most)
	}
	if first, ok := p.where[id]; ok {
		return fmt.Errorf("tenant %q was named before, at %d: name it once", id, first)
	}
	p.where[id] = at
	p.tenants = append(p.tenants, id)
	return nil
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
