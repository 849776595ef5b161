package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

func tenantExport(f *directoryFlags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write all tenants as CSV or JSON lines, to a file or standard output",
		Long: `Write all tenants as CSV or JSON lines, to a file or standard output. A tenant that is there during the
whole of the export is in it exactly once, as it is at that moment. That you exported them is kept in the
record that tenant history --operator prints.

A file grows beside its place, as FILE.part, and comes there when it is whole. An export to a file that was
interrupted goes on where FILE.checkpoint says when the same command is given again. Exit status 3 when that is of
another directory or format, and for CSV when a tenant's id has a line break, which JSON lines carry.`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 && args[0] != "-" {
				file = args[0]
			}
			kind, err := directory.CSV, error(nil)
			if format != "" || file != "" {
				if kind, err = fileFormat(format, file); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			return f.read(ctx, func(d *desk) error {
				if err := d.mayExportTo(file); err != nil {
					return err
				}
				if err := d.noteListing(ctx, "tenant export"); err != nil {
					return err
				}
				say := f.progress("%d tenants written", progressEvery)
				if file == "" {
					_, err := d.Export(ctx, f.out, kind, "", func(n int, _ string) { say(n) })
					return err
				}
				n, err := f.exportFile(ctx, d, file, kind, say)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(f.err, "%s written to %s\n", count(n, "tenant"), file)
				return err
			})
		},
	}
	wordVar(cmd.Flags(), &format, "format", "", "csv or jsonl (default: by the file's name; csv to standard output)")
	return cmd
}

// exportedTo is the checkpoint of an export: what is in the file up to Bytes.
type exportedTo struct {
	After     string               `json:"after"` // the last tenant
	Tenants   int                  `json:"tenants"`
	Bytes     int64                `json:"bytes"`
	Format    directory.FileFormat `json:"format"`
	Directory string               `json:"directory"`
}

// beside is the files that an export writes beside its own.
func beside(file string) (part, checkpoint string) { return file + ".part", file + ".checkpoint" }

// mayExportTo refuses a file that cannot be written as a whole, or would overwrite what is needed.
func (d *desk) mayExportTo(file string) error {
	if file == "" {
		return nil
	}
	part, checkpoint := beside(file)
	for _, path := range []string{file, part, checkpoint} {
		if err := d.spares(path); err != nil {
			return err
		}
		if err := regular(path); err != nil {
			return hint(err, "name a file; without one the tenants go to standard output")
		}
	}
	return nil
}

// exportBegun opens the part of the file that is there, cut off where the checkpoint has it, or an empty one.
func (f *directoryFlags) exportBegun(d *desk, file string, kind directory.FileFormat) (out *os.File, at exportedTo, err error) {
	part, checkpoint := beside(file)
	var before exportedTo
	found, err := readCheckpoint(checkpoint, &before)
	if err != nil {
		return nil, at, err
	}
	if found && (before.Format != kind || before.Directory != d.where) {
		return nil, at, hint(foundf("the checkpoint %s is of an export of another directory or format (%s, %s)", checkpoint, before.Directory, before.Format),
			"remove it and %s to export from the beginning, or name another file", part)
	}
	if out, err = os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, at, hint(usagef("cannot write the tenants: %w", err), "name a file in a folder that is there and yours to write to")
	}
	info, err := out.Stat()
	switch at = (exportedTo{Format: kind, Directory: d.where}); {
	case err != nil:
	case found && info.Size() >= before.Bytes:
		at = before
		fmt.Fprintf(f.err, "going on after %s\n", count(at.Tenants, "tenant"))
	case found:
		fmt.Fprintf(f.err, "%s has less than its checkpoint says: beginning anew\n", part)
	}
	if err == nil {
		err = out.Truncate(at.Bytes)
	}
	if err == nil {
		_, err = out.Seek(at.Bytes, io.SeekStart)
	}
	if err != nil {
		return nil, at, errors.Join(err, out.Close())
	}
	return out, at, nil
}

func (f *directoryFlags) exportFile(ctx context.Context, d *desk, file string, kind directory.FileFormat, say func(int)) (n int, err error) {
	part, checkpoint := beside(file)
	out, at, err := f.exportBegun(d, file, kind)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	f.watches() // the checkpoint is to say how far it came
	begun, written := at.Tenants, time.Now()
	to := &tallied{w: out, n: at.Bytes}
	_, err = d.Export(ctx, to, kind, at.After, func(n int, last string) {
		say(begun + n)
		// A page that fails is in the file in part: what stands here is as of the last that did not.
		at.After, at.Tenants, at.Bytes = last, begun+n, to.n
		if time.Since(written) < progressEvery {
			return
		}
		written = time.Now()
		f.checkpointExport(checkpoint, at)
	})
	if err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return 0, f.exportEnded(ctx, file, at, err)
	}
	return at.Tenants, gone(checkpoint)
}

// exportEnded leaves what an export needs to go on, and says so; nothing where it cannot.
func (f *directoryFlags) exportEnded(ctx context.Context, file string, at exportedTo, err error) error {
	part, checkpoint := beside(file)
	if errors.Is(err, directory.ErrLineBreak) {
		return errors.Join(directoryError(err), gone(part), gone(checkpoint))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s are in %s", context.Cause(ctx), count(at.Tenants, "tenant"), part)
	}
	if !f.checkpointExport(checkpoint, at) {
		return hint(err, "the same command begins anew")
	}
	return hint(err, "the same command goes on after %s", count(at.Tenants, "tenant"))
}

// gone removes a file, if there is one.
func gone(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkpointExport keeps where the file stands, and says whether it could. Without it an export that stops
// begins earlier.
func (f *directoryFlags) checkpointExport(path string, at exportedTo) bool {
	if at.After == "" {
		return false // nothing is written yet but a header
	}
	err := writeCheckpoint(path, at)
	if err != nil {
		fmt.Fprintln(f.err, "warning:", err)
	}
	return err == nil
}

// tallied counts the bytes that w took.
type tallied struct {
	w io.Writer
	n int64
}

func (t *tallied) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += int64(n)
	return n, err
}

// readCheckpoint reads a checkpoint; found is false when there is none.
func readCheckpoint(path string, into any) (found bool, err error) {
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = plainJSON(json.Unmarshal(text, into))
	}
	if err != nil {
		return false, hint(usagef("checkpoint %s: %w", path, err), "remove it to begin anew")
	}
	return true, nil
}

// writeCheckpoint replaces a checkpoint as a whole.
func writeCheckpoint(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint: %w", err), os.Remove(temp.Name()))
	}
	return nil
}
