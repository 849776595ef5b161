package fleet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
)

// Load reads and checks the fleet file at path. What is wrong with its contents comes back as Faults;
// any other error means that the file could not be read.
func Load(path string) (*Fleet, error) {
	f, _, err := LoadPositions(path)
	return f, err
}

// LoadPositions is Load, and tells where the values stand.
func LoadPositions(path string) (*Fleet, Positions, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Positions{}, fmt.Errorf("read the fleet file: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, Positions{}, fmt.Errorf("read the fleet file: %w", err)
	}
	return parsePositions(path, data, false)
}

// Parse checks the contents of a fleet file; file names it in faults, and its folder is where relative
// asset paths start. Every fault that can be found comes back, as Faults.
func Parse(file string, data []byte) (*Fleet, error) {
	f, _, err := parsePositions(file, data, false)
	return f, err
}

// parsePositions is Parse, or with unpinned ParseUnpinned.
func parsePositions(file string, data []byte, unpinned bool) (*Fleet, Positions, error) {
	d := &decoder{reader: &reader{file: file}, at: map[string]pos{}, bad: map[string]bool{}, below: map[string]bool{}, badKey: map[string]bool{}, texts: map[string]string{}}
	root := d.read(data)
	if root == nil {
		return nil, Positions{}, d.faults.sorted(data)
	}
	f := &Fleet{Dir: filepath.Dir(file)}
	d.value("", root, reflect.ValueOf(f).Elem(), described{})
	f.complete(d)
	c := &checker{d, f, unpinned}
	c.check()
	if len(d.faults) > 0 {
		return nil, Positions{}, d.faults.sorted(data)
	}
	f.Notes = c.notes()
	return f, Positions{file, d.at}, nil
}
