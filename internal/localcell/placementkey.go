package localcell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/localcell/proc"
)

// keyBytes is the length of a placement key, the same as on AWS.
const keyBytes = 32

// ErrNoKey means that the cell was never given the version of the placement key that is asked for.
var ErrNoKey = errors.New("the cell has no placement key of this version: give it that, or use another version")

// makeKey makes a cell's placement key in a file, under a version, unless the file is there. A cell that had one and has it no more is
// damaged: under another one every tenant would be placed elsewhere.
func (d Dir) makeKey(file, version string, had bool) error {
	switch _, err := d.read(file); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("placement key: %w", err)
	}
	if had {
		return fmt.Errorf("%w: %s is missing, by which its tenants are placed", ErrDamaged, d.file(file))
	}
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails (crypto/rand)
	data, err := json.Marshal(map[string]string{version: hex.EncodeToString(key)})
	if err != nil {
		return fmt.Errorf("placement key: %w", err)
	}
	return d.write(file, append(data, '\n'))
}

// key reads one version of the placement key in a file.
func (d Dir) key(file, version string) ([]byte, error) {
	keys := map[string]string{}
	if err := d.readJSON(file, &keys); err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	text, ok := keys[version]
	if !ok {
		return nil, fmt.Errorf("%w: version %q of %s", ErrNoKey, version, d.file(file))
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		// Neither error nor message may show the key.
		return nil, fmt.Errorf("%w: placement key: %s holds no %d bytes in hex under version %q", ErrDamaged, d.file(file), keyBytes, version)
	}
	return key, nil
}

// AddKey adds the keys that missing returns, who is told which versions are there, to those of a cell in d, and returns
// the versions that it added. It takes none away and changes none. The cell may run: it reads a version when a
// topology names it.
func (d Dir) AddKey(cell string, missing func(have []string) (map[string][]byte, error)) (added []string, err error) {
	file, err := d.keyFile(cell)
	if err != nil {
		return nil, err
	}
	lock, err := d.lockKeys()
	if err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	keys := map[string]string{}
	if err := d.readJSON(file, &keys); err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	more, err := missing(slices.Sorted(maps.Keys(keys)))
	if err != nil || len(more) == 0 {
		return nil, err
	}
	for version, key := range more {
		if _, there := keys[version]; there || len(key) != keyBytes {
			return nil, fmt.Errorf("placement key: version %q of %d bytes cannot be added to %s: want another version and %d bytes", version, len(key), d.file(file), keyBytes)
		}
		keys[version] = hex.EncodeToString(key)
	}
	data, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	return slices.Sorted(maps.Keys(more)), d.write(file, append(data, '\n'))
}

// lockKeys keeps two who add a key from taking away each other's.
func (d Dir) lockKeys() (*proc.Lock, error) {
	for deadline := time.Now().Add(lockLimit); ; time.Sleep(checkEvery) {
		lock, err := proc.TryLock(d.file(fileKeyLock))
		if err != nil || lock != nil {
			return lock, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another command is adding one in %s; try again in a moment", d)
		}
	}
}

// Key is one version of the placement key of a cell in d, for its router and its operator.
func (d Dir) Key(cell, version string) ([]byte, error) {
	file, err := d.keyFile(cell)
	if err != nil {
		return nil, err
	}
	return d.key(file, version)
}

// keyFile is the name of the file with the placement key of a cell in d.
func (d Dir) keyFile(cell string) (string, error) {
	l, err := d.readLayout()
	if err != nil {
		return "", fmt.Errorf("the cell's plan: %w", err)
	}
	if !slices.Contains(l.Names(), cell) {
		return "", fmt.Errorf("placement key: in %s lies cell %q, not %q", d, l.Names(), cell)
	}
	return l.KeyFiles[cell], nil
}
