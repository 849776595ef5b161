package directory

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Export writes the entries after the tenant named after, "" for all, and returns their number. progress
// is told after each page, when w has it, of the number so far and the last tenant: with that, an export
// that was interrupted is taken up and appended. CSV has its line of names when after is "". The
// directory may change meanwhile; see Store.List.
func (d *Directory) Export(ctx context.Context, w io.Writer, f FileFormat, after string, progress func(n int, last string)) (n int, err error) {
	const page = 1000
	e, err := newEncoder(w, f, after == "")
	if err != nil {
		return 0, err
	}
	for {
		entries, err := d.List(ctx, after, page)
		if err != nil {
			return n, err
		}
		for _, entry := range entries {
			if err := e.write(entry); err != nil {
				return n, fmt.Errorf("export tenant %q: %w", entry.Tenant, err)
			}
		}
		if err := e.flush(); err != nil {
			return n, fmt.Errorf("export: %w", err)
		}
		if n += len(entries); len(entries) > 0 {
			after = entries[len(entries)-1].Tenant
			progress(n, after)
		}
		if len(entries) < page {
			return n, nil
		}
	}
}

// ErrLineBreak is the error of an export to CSV that comes to a tenant whom its lines cannot carry.
var ErrLineBreak = errors.New("its id has a line break, which " + string(CSV) + " does not carry: export as " + string(JSONLines))

// encoder writes entries to a file, which has them after flush.
type encoder struct {
	write func(Entry) error
	flush func() error
}

func newEncoder(w io.Writer, f FileFormat, first bool) (encoder, error) {
	switch f {
	case JSONLines:
		buffer := bufio.NewWriter(w)
		lines := json.NewEncoder(buffer)
		lines.SetEscapeHTML(false)
		return encoder{func(e Entry) error { return lines.Encode(e) }, buffer.Flush}, nil
	case CSV:
		lines := csv.NewWriter(w)
		fields := make([]string, len(columns))
		if first {
			for i, c := range columns {
				fields[i] = c.name
			}
			if err := lines.Write(fields); err != nil {
				return encoder{}, fmt.Errorf("export: %w", err)
			}
		}
		return encoder{func(e Entry) error {
			for i, c := range columns {
				if fields[i] = c.get(e); strings.ContainsAny(fields[i], "\r\n") {
					return ErrLineBreak
				}
			}
			return lines.Write(fields)
		}, func() error {
			lines.Flush()
			return lines.Error()
		}}, nil
	}
	return encoder{}, fmt.Errorf("file format %q: want %s or %s", f, CSV, JSONLines)
}
