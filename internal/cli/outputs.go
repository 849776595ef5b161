package cli

import (
	"io/fs"
	"os"
	"path/filepath"
)

// spares refuses to write to a path, or to replace what is there, where that is a file which the command
// reads, or one of the directory's: by whichever name or link.
func (d *desk) spares(path string, reads ...string) error {
	for _, own := range append(reads, d.files...) {
		if own != "" && sameFile(path, own) {
			return hint(usagef("%s is %s, which this command needs: it would be overwritten", path, own), "name another file")
		}
	}
	return nil
}

// sameFile says whether two paths lead to one file, there or not.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return errA != nil && errB != nil && place(a) == place(b)
}

// place is a path from the root, without links in its folder.
func place(path string) string {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	return filepath.Join(folder, filepath.Base(path))
}

// filesIn is every file of a folder and those below. What cannot be read has no file of ours.
func filesIn(folder string) (files []string) {
	_ = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	return files
}

// regular refuses a path at which something is that is no file: what is to be written as a whole cannot
// come to its place there.
func regular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s is there and no file", path)
	}
	return nil
}
