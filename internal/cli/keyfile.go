package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

const minKey = 32 // bytes

// keyFile is what a key file has: one key for every version, or one for each as the cell's secret has it.
type keyFile struct {
	name      string
	one       []byte
	byVersion map[string][]byte
}

// version is the key of a version.
func (k *keyFile) version(version string) ([]byte, error) {
	if k.one != nil {
		return k.one, nil
	}
	if key, ok := k.byVersion[version]; ok {
		return key, nil
	}
	return nil, usagef("--key-file %s has no key of version %q: it has %q", k.name, version, slices.Sorted(maps.Keys(k.byVersion)))
}

// only is the key of a file that has one, for what knows no versions.
func (k *keyFile) only() ([]byte, error) {
	if k.one != nil {
		return k.one, nil
	}
	if len(k.byVersion) > 1 {
		return nil, usagef("--key-file %s has keys of versions %q, and here there is no topology to name one: give a file with one", k.name, slices.Sorted(maps.Keys(k.byVersion)))
	}
	for _, key := range k.byVersion {
		return key, nil
	}
	return nil, usagef("--key-file %s has no key", k.name)
}

// readKeyFile reads placement keys for operators. No error shows any of them.
func readKeyFile(path string) (*keyFile, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil, usagef("--key-file %s: there is no such file", path)
	}
	if err != nil {
		return nil, usagef("--key-file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, usagef("--key-file %s has mode %#o, so that others can read or change it: take the key for known, or chmod 600 the file if nobody else uses this machine", path, mode)
	}
	text, err := readSmall(path)
	if err != nil {
		return nil, usagef("--key-file: %w", err)
	}
	k, err := parseKeys(text)
	if err != nil {
		return nil, usagef("--key-file %s: %w", path, err)
	}
	k.name = path
	return k, nil
}

// parseKeys reads a key in hexadecimal, or an object with one for each version.
func parseKeys(text []byte) (*keyFile, error) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		key, err := parseKey(text)
		return &keyFile{one: key}, err
	}
	written, err := versionedKeys(text)
	if err != nil {
		return nil, err
	}
	k := &keyFile{byVersion: map[string][]byte{}}
	for _, version := range slices.Sorted(maps.Keys(written)) {
		key, err := parseKey([]byte(written[version]))
		if err != nil {
			return nil, fmt.Errorf("version %q: %w", version, err)
		}
		k.byVersion[version] = key
	}
	return k, nil
}

// versionedKeys reads an object of texts, each name once: of two, json takes the last without a word. No error
// quotes the text, other than the name.
func versionedKeys(text []byte) (map[string]string, error) {
	bad := fmt.Errorf(`want an object {"version":"%d hexadecimal digits or more"}`, 2*minKey)
	var written map[string]string
	if json.Unmarshal(text, &written) != nil || len(written) == 0 {
		return nil, bad
	}
	d, seen := json.NewDecoder(bytes.NewReader(text)), map[string]bool{}
	for i := 0; ; i++ { // the brace, then names and texts in turn
		token, err := d.Token()
		if err != nil {
			return written, nil // the end: it is valid, as was found above
		}
		name, isText := token.(string)
		if i%2 == 0 || !isText {
			continue
		}
		if seen[name] {
			return nil, fmt.Errorf("version %q has two keys: keep the one that places its tenants", name)
		}
		seen[name] = true
	}
}

func parseKey(text []byte) ([]byte, error) {
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) < minKey {
		return nil, fmt.Errorf("want at least %d hexadecimal digits on one line", 2*minKey)
	}
	return key, nil
}

// exampleKey stands in where a cell's own key is not at hand. It is no secret.
func exampleKey() []byte {
	key := sha256.Sum256([]byte("cellwall's example placement key"))
	return key[:]
}

const exampleKeyNote = "note: placed with an example key: the cell's own gives its tenants other subsets, and so other names of shards, with the same statistics (--key-file FILE)"
