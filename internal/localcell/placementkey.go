package localcell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	keyBytes        = 32  // length of a placement key, the same as on AWS
	firstKeyVersion = "1" // under which a new cell's key is made
)

// ErrNoKey means that the cell was never given the version of the placement key that is asked for.
var ErrNoKey = errors.New("the cell has no placement key of this version: give it that, or use another version")

// makeKey makes the cell's placement key, unless it is there. A directory without its key is damaged: under
// another one every tenant would be placed elsewhere.
func (d Dir) makeKey() error {
	switch _, err := d.read(filePlacementKey); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("placement key: %w", err)
	}
	if _, err := os.Stat(d.file(fileDirectory)); err == nil {
		return fmt.Errorf("%w: %s is missing, by which its tenants are placed", ErrDamaged, d.file(filePlacementKey))
	}
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails (crypto/rand)
	data, err := json.Marshal(map[string]string{firstKeyVersion: hex.EncodeToString(key)})
	if err != nil {
		return fmt.Errorf("placement key: %w", err)
	}
	return d.write(filePlacementKey, append(data, '\n'))
}

// key reads one version of the placement key of the cell in d.
func (d Dir) key(version string) ([]byte, error) {
	keys := map[string]string{}
	if err := d.readJSON(filePlacementKey, &keys); err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	text, ok := keys[version]
	if !ok {
		return nil, fmt.Errorf("%w: version %q of %s", ErrNoKey, version, d.file(filePlacementKey))
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		// Neither error nor message may show the key.
		return nil, fmt.Errorf("%w: placement key: %s holds no %d bytes in hex under version %q", ErrDamaged, d.file(filePlacementKey), keyBytes, version)
	}
	return key, nil
}

// Key is one version of the placement key of the cell in d, for its router and its operator.
func (d Dir) Key(cell, version string) ([]byte, error) {
	var p Plan
	if err := d.readJSON(filePlan, &p); err != nil {
		return nil, fmt.Errorf("the cell's plan: %w", err)
	}
	if p.Cell != cell {
		return nil, fmt.Errorf("placement key: in %s lies cell %q, not %q", d, p.Cell, cell)
	}
	return d.key(version)
}
