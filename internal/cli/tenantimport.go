package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/routing"
)

// progressEvery is the time between two lines of progress, and between two checkpoints.
const progressEvery = time.Second

func tenantImport(f *directoryFlags) *cobra.Command {
	var format, cell, checkpoint string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Enrol the tenants of a CSV or JSON lines file",
		Long: `Enrol the tenants of a CSV or JSON lines file, such as tenant export writes; docs/cli.md has the columns.
Tenants come to the cell, and with the size class, pins and load, that their line names, whether the cell
has headroom or not, and are held by their shards before they are there.

The whole file is read first: with any bad line, all of them are reported by their number, and nothing is
written. Tenants who are there as their line says are left alone, so that an import may be repeated. An
import that was interrupted goes on where its checkpoint says when the same command is given again. Exit
status 3 when tenants are there already, and otherwise: they, too, are left alone, and named.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := fileFormat(format, args[0])
			if err != nil {
				return err
			}
			fleet, err := f.loadFleet()
			if err != nil {
				return err
			}
			if checkpoint == "" {
				checkpoint = args[0] + ".checkpoint"
			}
			in := &importing{app: f.app, file: args[0], format: kind, cell: cell, checkpoint: checkpoint, fleet: fleet, every: progressEvery}
			if err := regular(args[0]); err != nil {
				return hint(err, "it is read twice: write what comes from a pipe or a device to a file first")
			}
			return f.read(cmd.Context(), func(d *desk) error {
				if err := d.spares(checkpoint, args[0]); err != nil {
					return err
				}
				if err := d.keyed(cmd.Context()); err != nil {
					return err
				}
				r, err := in.run(cmd.Context(), d)
				if err != nil {
					return err
				}
				return f.printImported(r, asJSON)
			})
		},
	}
	wordVar(cmd.Flags(), &format, "format", "", "csv or jsonl (default: by the file's name)")
	wordVar(cmd.Flags(), &cell, "cell", "", "cell of the lines that name none")
	wordVar(cmd.Flags(), &checkpoint, "checkpoint", "", "file that says how far the import has come (default: FILE.checkpoint; gone when all is done)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// fileFormat is the format that was named, or what the name of the file says.
func fileFormat(named, file string) (directory.FileFormat, error) {
	if named == "" {
		switch strings.ToLower(filepath.Ext(file)) {
		case ".csv":
			return directory.CSV, nil
		case ".jsonl", ".ndjson":
			return directory.JSONLines, nil
		}
		return "", usagef("%s: say with --format whether it is %s or %s", file, directory.CSV, directory.JSONLines)
	}
	switch kind := directory.FileFormat(named); kind {
	case directory.CSV, directory.JSONLines:
		return kind, nil
	}
	return "", usagef("--format %s: want %s or %s", named, directory.CSV, directory.JSONLines)
}

// importing is one import.
type importing struct {
	*app
	file, cell, checkpoint string
	format                 directory.FileFormat
	fleet                  *fleet.Fleet
	every                  time.Duration // between two lines of progress, and two checkpoints
}

// importReport is the JSON form of tenant import.
type importReport struct {
	Tenants int `json:"tenants"` // in the file
	Created int `json:"created"` // by this command
	Present int `json:"present"` // as their lines say, those included whom it brought before it was interrupted
	Differ  int `json:"differ"`  // otherwise than their lines say, and left alone
}

// importedTo is the content of a checkpoint.
type importedTo struct {
	Line      int    `json:"line"`   // all up to it are done
	Differ    int    `json:"differ"` // of them, those who were there otherwise
	Operation string `json:"operation"`
	SHA256    string `json:"sha256"` // of the file
	Directory string `json:"directory"`
}

func (in *importing) run(ctx context.Context, d *desk) (importReport, error) {
	var r importReport
	check, err := d.Checker(ctx, d.at)
	if err != nil {
		return r, err
	}
	newest := map[string]uint64{}
	cells, err := d.Cells(ctx)
	if err != nil {
		return r, err
	}
	internal := map[string]bool{}
	for _, c := range cells {
		newest[c.Name], internal[c.Name] = c.Topology, c.Internal
	}
	at, found, err := in.checkpointed(d)
	if err != nil {
		return r, err
	}
	// First all is read, then all is written.
	say := in.progress("checked %d lines", in.every)
	first, err := in.open(newest, say)
	if err != nil {
		return r, err
	}
	last := "" // of the tenants who are to be there already
	lines := func(yield func(directory.Line, error) bool) {
		for line, err := range first.lines {
			if line.Number <= at.Line && line.Fault == nil {
				last = line.Entry.Tenant
			}
			if !yield(line, err) {
				return
			}
		}
	}
	named := map[string]bool{} // cells
	nameless := nobodysNames{}
	bad, good, err := directory.Vet(lines, func(e directory.Entry) error {
		named[e.Cell] = true
		nameless.see(e.Tenant)
		if e.Size != "" {
			if err := declared(in.fleet, e.Size); err != nil {
				return err
			}
		}
		if err := check(e); err != nil {
			return err
		}
		return livesThere(e, internal[e.Cell], d.at)
	}, func(f directory.Fault) { fmt.Fprintf(in.err, "%s:%d: %v\n", in.file, f.Line, f.Err) })
	if err = errors.Join(err, first.close()); err != nil {
		return r, usagef("%s: %w", in.file, err)
	}
	if bad > 0 {
		return r, usagef("%s has %s: nothing was imported", in.file, count(bad, "bad line"))
	}
	r.Tenants = good
	nameless.tell(in.err, in.file)
	if err := d.reach(slices.Sorted(maps.Keys(named))...); err != nil {
		return r, err
	}
	for _, cell := range slices.Sorted(maps.Keys(named)) {
		if err := d.placeBy(ctx, cell, newest[cell]); err != nil {
			return r, err
		}
	}
	// It tells who is there already, whom it does not change.
	if err := d.noteListing(ctx, "tenant import", strings.ToValidUTF8(filepath.Base(in.file), "?")); err != nil {
		return r, err
	}

	if found {
		if err := in.resumes(ctx, d, at, first.sum(), last); err != nil {
			return r, err
		}
	}
	at.SHA256 = first.sum()
	c := d.change()
	c.Operation = at.Operation
	if err := writeCheckpoint(in.checkpoint, at); err != nil {
		return r, hint(usagef("%w", err), "nothing was imported; name with --checkpoint a file that can be written")
	}
	in.watches() // the checkpoint is to say how far it came
	second, err := in.open(newest, func(int) {})
	if err != nil {
		return r, err
	}
	say = in.progress(fmt.Sprintf("%%d of %d tenants are there", good), in.every)
	written := time.Now()
	r.Differ = at.Differ
	err = directory.Import(ctx, second.lines, at.Line, c, d.Enrol, func(p directory.Progress) {
		r.Differ += len(p.Differ)
		r.Created = p.Created
		if p.Line > at.Line { // those behind it are counted again when the import goes on
			at.Line, at.Differ = p.Line, r.Differ
		}
		for _, e := range p.Differ {
			fmt.Fprintf(in.err, "%s: tenant %s is there already, otherwise than the file says: left alone\n", in.file, shown(e.Tenant))
		}
		say(r.Created + p.Present + r.Differ)
		if time.Since(written) >= in.every {
			// Without it the import goes on, and would only begin earlier when it is repeated.
			if err := writeCheckpoint(in.checkpoint, at); err != nil {
				fmt.Fprintln(in.err, "warning:", err)
			}
			written = time.Now()
		}
	})
	err = errors.Join(err, second.close())
	if fault := (directory.Fault{}); errors.As(err, &fault) || err == nil && second.sum() != first.sum() {
		return r, hint(errors.Join(fmt.Errorf("%s was changed while it was imported, and is there in part", in.file), err),
			"compare it with the directory; to import it as it is now, remove %s", in.checkpoint)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: all up to line %d of %s are there", context.Cause(ctx), at.Line, in.file)
		}
		return r, hint(errors.Join(err, writeCheckpoint(in.checkpoint, at)), "the same command goes on where it stopped, after line %d", at.Line)
	}
	r.Present = good - r.Created - r.Differ
	if err := os.Remove(in.checkpoint); err != nil {
		return r, hint(err, "all tenants are there: remove it")
	}
	return r, nil
}

// nobodysNames counts tenants whom no token can name. They are imported, since they may be asked for by IAM or be
// there for other ends.
type nobodysNames struct {
	n     int
	first string
	why   error
}

func (b *nobodysNames) see(tenant string) {
	if err := routing.Claimable(tenant); err != nil {
		if b.n++; b.n == 1 {
			b.first, b.why = tenant, err
		}
	}
}

func (b *nobodysNames) tell(w io.Writer, file string) {
	if b.n > 0 {
		fmt.Fprintf(w, "note: %s in %s cannot be named by any token, so that each of their requests is refused with 401; the first is %q: %v\n",
			count(b.n, "tenant"), file, b.first, b.why)
	}
}

// maxAhead is how far the clock of whoever wrote a file may be ahead.
const maxAhead = time.Hour

// livesThere refuses what a sign-up could not have brought about: a tenant in a cell for others, and one
// that is yet to come.
func livesThere(e directory.Entry, internal bool, now time.Time) error {
	switch {
	case internal && !e.Internal:
		return fmt.Errorf("cell %q is for internal tenants: write true in column internal if it is one, or name another cell", e.Cell)
	case e.Internal && !internal:
		return fmt.Errorf("the tenant is internal, and cell %q is not for such: name one that is", e.Cell)
	case e.Created.After(now.Add(maxAhead)):
		return fmt.Errorf("it was created at %s, which is yet to come", e.Created.Format(time.RFC3339))
	}
	return nil
}

// checkpointed is what the checkpoint says, or the beginning of an import when there is none.
func (in *importing) checkpointed(d *desk) (at importedTo, found bool, err error) {
	found, err = readCheckpoint(in.checkpoint, &at)
	if err == nil && !found {
		at = importedTo{Operation: d.operation, Directory: d.where}
	}
	return at, found, err
}

// resumes refuses to go on after a checkpoint that is of another file, or of another directory than the one
// that is there: last is the tenant whom it was given last.
func (in *importing) resumes(ctx context.Context, d *desk, at importedTo, sum, last string) error {
	anew := func(err error) error {
		return hint(err, "remove it to import %s from the beginning, or name another with --checkpoint", in.file)
	}
	if at.SHA256 != sum || at.Directory != d.where {
		return anew(foundf("the checkpoint %s is of another file or another directory (%s)", in.checkpoint, at.Directory))
	}
	if last != "" {
		_, err := d.Get(ctx, last)
		if errors.Is(err, directory.ErrNotFound) {
			return anew(foundf("the checkpoint %s says that all up to line %d are there, and tenant %s is not: the directory is another one by now", in.checkpoint, at.Line, shown(last)))
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(in.err, "going on after line %d\n", at.Line)
	return nil
}

// reading is one reading of the file.
type reading struct {
	lines iter.Seq2[directory.Line, error]
	file  io.Closer
	hash  hash.Hash
}

func (r *reading) close() error { return r.file.Close() }
func (r *reading) sum() string  { return hex.EncodeToString(r.hash.Sum(nil)) }

// open begins to read. Lines get what they leave out: the cell that was named, and the cell's topology.
func (in *importing) open(newest map[string]uint64, say func(int)) (*reading, error) {
	file, err := os.Open(in.file)
	if err != nil {
		return nil, usagef("cannot read the tenants: %w", err)
	}
	r := &reading{file: file, hash: sha256.New()}
	lines := directory.ReadEntries(io.TeeReader(file, r.hash), in.format)
	r.lines = func(yield func(directory.Line, error) bool) {
		for line, err := range lines {
			if line.Entry.Cell == "" {
				line.Entry.Cell = in.cell
			}
			if line.Entry.Topology == 0 {
				line.Entry.Topology = newest[line.Entry.Cell]
			}
			if !yield(line, err) {
				return
			}
			say(line.Number)
		}
	}
	return r, nil
}

// progress is a function that says now and then how far something has come.
func (a *app) progress(format string, every time.Duration) func(n int) {
	last := time.Now()
	return func(n int) {
		if time.Since(last) >= every {
			fmt.Fprintf(a.err, format+"\n", n)
			last = time.Now()
		}
	}
}

func (f *directoryFlags) printImported(r importReport, asJSON bool) error {
	var err error
	if asJSON {
		err = f.json(r)
	} else {
		_, err = fmt.Fprintf(f.out, "%s: %d added, %d there before, %d there otherwise\n", count(r.Tenants, "tenant"), r.Created, r.Present, r.Differ)
	}
	if err != nil {
		return hint(err, "all tenants are there; the same command tells of them again")
	}
	if r.Differ > 0 {
		return foundf("%s there otherwise than the file says", count(r.Differ, "tenant"))
	}
	return nil
}
