package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// Bounds of a digest.
const (
	maxFiles = 200_000
	maxBytes = 20 << 30
	maxDepth = 64
)

// lock are the files by which the CDK's command line keeps others away from an assembly.
var lock = regexp.MustCompile(`^(?:read\.[^/]+\.lock|synth\.lock)$`)

// apart says that a file or folder is not part of an assembly: what the CDK's command line makes beside it, and two
// reports that nothing is deployed from, one of which holds the audit's words about a fleet at one time. Only a
// folder that is an assembly is looked at: an asset may have files of these names.
func apart(name string, assembly, top bool) bool {
	switch {
	case !assembly:
		return false
	case name == ".cache" || name == ".hotswap-cache" || lock.MatchString(name):
		return true
	}
	return top && (name == "tree.json" || name == "validation-report.json")
}

// Digest is the SHA-256 over all files of an assembly, as sha256:HEX. A link, or anything that is neither a file nor a
// folder, is an error.
func Digest(fsys fs.FS) (string, error) {
	sum := newSum()
	files, bytes := 0, int64(0)
	err := walk(fsys, func(name string, f fs.File, info fs.FileInfo) error {
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		content := sha256.New()
		n, err := io.Copy(content, io.LimitReader(f, maxBytes-bytes+1))
		if bytes += n; bytes > maxBytes {
			return fmt.Errorf("more than %d GiB", maxBytes>>30)
		}
		line(sum, name, info, content.Sum(nil))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotAssembly, err)
	}
	return text(sum.Sum(nil)), nil
}

func newSum() hash.Hash {
	sum := sha256.New()
	io.WriteString(sum, "cellwall/assembly/v1\n")
	return sum
}

// line is a file's part of a digest.
func line(w io.Writer, name string, info fs.FileInfo, content []byte) {
	kind := "file"
	if executable(info) {
		kind = "program" // it stays one in the archive that is made of it
	}
	fmt.Fprintf(w, "%s %q %x\n", kind, name, content)
}

func executable(info fs.FileInfo) bool { return info.Mode()&0o100 != 0 }

func text(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// walk calls visit with every file of an assembly, in the order of the folders' names.
func walk(fsys fs.FS, visit func(name string, f fs.File, info fs.FileInfo) error) error {
	var in func(dir string, assembly bool, depth int) error
	in = func(dir string, assembly bool, depth int) error {
		if depth > maxDepth {
			return fmt.Errorf("%s: folders are nested deeper than %d", dir, maxDepth)
		}
		entries, err := fs.ReadDir(fsys, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case apart(e.Name(), assembly, dir == "."):
			case e.IsDir():
				err = in(name, assembly && strings.HasPrefix(e.Name(), "assembly-"), depth+1)
			case !e.Type().IsRegular():
				err = fmt.Errorf("%s: neither a file nor a folder: an assembly has no links", name)
			default:
				err = open(fsys, name, visit)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return in(".", true, 0)
}

func open(fsys fs.FS, name string, visit func(string, fs.File, fs.FileInfo) error) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // it was when the folder was listed
		return fmt.Errorf("%s: not a regular file", name)
	}
	return visit(name, f, info)
}

func decodeStrict(file string, text []byte, v any) error {
	if _, err := template.DecodeJSON(text); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: not of the expected form: %w", file, err)
	}
	return nil
}
