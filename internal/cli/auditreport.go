package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
	"cellwall.dev/cellwall/internal/audit/page"
	"cellwall.dev/cellwall/internal/audit/sarif"
)

// auditFormats are the forms of a report, and auditEndings those that the name of an output file means.
var (
	auditFormats = []string{"text", "json", "sarif", "html"}
	auditEndings = map[string]string{".txt": "text", ".json": "json", ".sarif": "sarif", ".html": "html", ".htm": "html"}
)

// auditOutput says in which form a report is written, and where to.
type auditOutput struct {
	format string
	asJSON bool
	file   string
}

func (o *auditOutput) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.format, "format", "", "text, json, sarif (2.1.0) or html (one page); by default what -o FILE ends in, else text")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "the same as --format json: the report with every path")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write the report to `FILE`, which is replaced as a whole, instead of standard output (-)")
}

// decide finds the form, or says that the flags contradict each other.
func (o *auditOutput) decide() error {
	if o.asJSON && o.format != "" && o.format != "json" {
		return usagef("--json and --format %s are two forms: choose one", o.format)
	}
	if o.asJSON {
		o.format = "json"
	}
	if o.file == "-" {
		o.file = ""
	}
	ending := strings.ToLower(filepath.Ext(o.file))
	if strings.HasSuffix(strings.ToLower(o.file), ".sarif.json") {
		ending = ".sarif"
	}
	o.format = cmp.Or(o.format, auditEndings[ending], "text")
	if !slices.Contains(auditFormats, o.format) {
		return usagef("--format %q is none: write text, json, sarif or html", o.format)
	}
	return nil
}

// spares refuses, before anything is audited, a file that cannot be written, and one that the audit reads. A
// baseline that a failing run replaces would let the next run pass.
func (o *auditOutput) spares(reads ...string) error {
	if o.file == "" {
		return nil
	}
	switch info, err := os.Stat(o.file); {
	case err == nil && info.IsDir():
		return usagef("-o %s is a directory: name a file in it", o.file)
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(place(o.file))); err != nil || !info.IsDir() {
			return usagef("-o %s: there is no directory %s: make it first", o.file, filepath.Dir(o.file))
		}
	}
	for _, own := range reads {
		if own != "" && sameFile(o.file, own) {
			return hint(usagef("-o %s is %s, which the audit reads: it would be overwritten", o.file, own), "name another file, and move it when all is well")
		}
	}
	return nil
}

// write writes the report of the directories dirs.
func (o *auditOutput) write(out io.Writer, r *audit.Report, dirs []string) error {
	if o.file == "" {
		return o.encode(out, r, dirs)
	}
	var b bytes.Buffer
	if err := o.encode(&b, r, dirs); err != nil {
		return err
	}
	return replaceFile(o.file, b.Bytes())
}

func (o *auditOutput) encode(w io.Writer, r *audit.Report, dirs []string) error {
	switch o.format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "sarif":
		opt := sarif.Options{Version: version()}
		if len(dirs) == 1 {
			opt.Dir, opt.Line = filepath.ToSlash(filepath.Clean(dirs[0])), linesIn(dirs[0]).of
		} else {
			opt.Line, opt.Whole = variantLines(dirs), filepath.ToSlash(filepath.Clean(dirs[0]))
		}
		return sarif.Write(w, r, opt)
	case "html":
		names := make([]string, len(dirs))
		for i, dir := range dirs {
			names[i] = filepath.Base(filepath.Clean(dir))
		}
		return page.Write(w, r, strings.Join(names, ", "))
	}
	return r.WriteText(w)
}

// replaceFile writes a file beside the one that it becomes, so that no reader sees half of it. What is
// no regular file, such as /dev/stdout, is written to as it is.
func replaceFile(file string, data []byte) (err error) {
	if link, err := os.Lstat(file); err == nil && link.Mode()&fs.ModeSymlink != 0 { // the link stays, and so who reads by it
		real, err := filepath.EvalSymlinks(file)
		if err != nil { // it leads to what is not there yet
			return os.WriteFile(file, data, 0o644)
		}
		file = real
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(file, data, 0o644)
		}
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// resourceLines finds the lines on which templates define their resources. It reads a file once.
type resourceLines struct {
	dir  string
	seen map[string]map[string]int // by file
}

func linesIn(dir string) *resourceLines {
	return &resourceLines{dir: dir, seen: map[string]map[string]int{}}
}

// variantLines finds lines in files that begin with the name of the variant that has them.
func variantLines(dirs []string) func(file, logicalID string) int {
	lines := map[string]*resourceLines{}
	for _, dir := range dirs {
		lines[filepath.ToSlash(filepath.Clean(dir))] = linesIn(dir)
	}
	return func(file, logicalID string) int {
		best := ""
		for name := range lines {
			if strings.HasPrefix(file, name+"/") && len(name) > len(best) {
				best = name
			}
		}
		if best == "" { // what is of no variant, or of the directory "."
			if l := lines["."]; l != nil {
				return l.of(file, logicalID)
			}
			return 0
		}
		return lines[best].of(strings.TrimPrefix(file, best+"/"), logicalID)
	}
}

// maxLined bounds the files that are searched for lines, in bytes.
const maxLined = 8 << 20

func (l *resourceLines) of(file, logicalID string) int {
	at, ok := l.seen[file]
	if !ok {
		at = l.read(file)
		l.seen[file] = at
	}
	return at[logicalID]
}

// read reads a file of the directory and nothing outside of it. A line is a convenience: where a file
// cannot be read any more, it is named all the same.
func (l *resourceLines) read(file string) map[string]int {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(file))
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLined {
		return nil
	}
	data, err := root.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return nil
	}
	return assembly.Lines(data)
}
