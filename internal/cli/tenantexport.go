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
interrupted goes on where it stopped when the same command is given again.`,
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
			return f.with(ctx, func(d *desk) error {
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
					return hint(err, "the same command goes on where it stopped")
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

func (f *directoryFlags) exportFile(ctx context.Context, d *desk, file string, kind directory.FileFormat, say func(int)) (n int, err error) {
	part, checkpoint := file+".part", file+".checkpoint"
	at := exportedTo{Format: kind, Directory: d.where}
	var before exportedTo
	found, err := readCheckpoint(checkpoint, &before)
	if err != nil {
		return 0, err
	}
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, usagef("cannot write the tenants: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	if found && before.Format == kind && before.Directory == d.where && info.Size() >= before.Bytes {
		at = before
		fmt.Fprintf(f.err, "going on after %s\n", count(at.Tenants, "tenant"))
	}
	if err := out.Truncate(at.Bytes); err != nil {
		return 0, err
	}
	if _, err := out.Seek(at.Bytes, io.SeekStart); err != nil {
		return 0, err
	}
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
	if err != nil {
		f.checkpointExport(checkpoint, at)
		return 0, err
	}
	if err := os.Rename(part, file); err != nil {
		return 0, err
	}
	if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return at.Tenants, nil
}

// checkpointExport keeps where the file stands. Without it an export that stops begins earlier.
func (f *directoryFlags) checkpointExport(path string, at exportedTo) {
	if at.After == "" {
		return // nothing is written yet but a header
	}
	if err := writeCheckpoint(path, at); err != nil {
		fmt.Fprintln(f.err, "warning:", err)
	}
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
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
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
