package stamp

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// archive is a folder as one zip file whose bytes depend on the names, contents and executable bits in
// the folder alone, so that its digest is known before the deployment: an instance can refuse any
// other bytes before it unpacks them.
type archive struct {
	path   string
	sha256 string // hexadecimal
}

// newArchive writes the archive of dir into the folder into. Only folders and regular files are
// taken; anything else is refused, since a link may mean another file on the instance.
func newArchive(dir, into string) (archive, error) {
	out, err := os.Create(filepath.Join(into, "service.zip"))
	if err != nil {
		return archive{}, fmt.Errorf("the archive of %s cannot be written: %w", dir, err)
	}
	sum := sha256.New()
	err = errors.Join(pack(io.MultiWriter(out, sum), dir), out.Close())
	if err != nil {
		return archive{}, fmt.Errorf("the archive of %s cannot be written: %w", dir, err)
	}
	return archive{path: out.Name(), sha256: hex.EncodeToString(sum.Sum(nil))}, nil
}

func pack(w io.Writer, dir string) error {
	z := zip.NewWriter(w)
	root := os.DirFS(dir)
	// WalkDir visits in lexical order, which is the order of the entries.
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a folder nor a regular file; put the file itself there", name)
		}
		// Stored, not compressed: the bytes must not change with the version of the compressor.
		head := &zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		head.SetMode(0o644)
		if info.Mode()&0o111 != 0 {
			head.SetMode(0o755)
		}
		to, err := z.CreateHeader(head)
		if err != nil {
			return err
		}
		from, err := root.Open(name)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	})
	return errors.Join(err, z.Close())
}
