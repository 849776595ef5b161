package snapfile

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cellwall.dev/cellwall/internal/snapshot"
)

const keyBytes = 32

// Keys seals and opens the snapshots of one cell by two keys from a file. On one machine whoever may read
// that file may also write snapshots: routers and keeper are the same user's.
type Keys struct {
	cell string
	gcm  cipher.AEAD
	mac  snapshot.Secret
}

var (
	_ snapshot.Sealer = (*Keys)(nil)
	_ snapshot.Opener = (*Keys)(nil)
)

// MakeKeys returns the keys in the file, which only its owner may read, and makes one with new keys when
// there is none. Of several processes that do so at once, one makes the file for all.
func MakeKeys(path, cell string) (*Keys, error) {
	if k, err := OpenKeys(path, cell); !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := makeKeys(path); err != nil {
		return nil, fmt.Errorf("make the keys of snapshots: %w", err)
	}
	return OpenKeys(path, cell)
}

func makeKeys(path string) error {
	keys := make([]byte, 2*keyBytes)
	rand.Read(keys)
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".next-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	_, err = fmt.Fprintln(next, hex.EncodeToString(keys))
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := os.Link(next.Name(), path); !errors.Is(err, fs.ErrExist) { // never over another's
		return err
	}
	return nil
}

// OpenKeys returns the keys in the file. It has 128 hexadecimal digits, which no error repeats.
func OpenKeys(path, cell string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the keys of snapshots: %w", err)
	}
	keys, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(keys) != 2*keyBytes {
		return nil, fmt.Errorf("the keys of snapshots in %s: want %d hexadecimal digits; remove the file to have new ones made", path, 4*keyBytes)
	}
	block, err := aes.NewCipher(keys[:keyBytes])
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Keys{cell: cell, gcm: gcm, mac: keys[keyBytes:]}, nil
}

// String says what it is, and nothing of the keys.
func (k Keys) String() string { return fmt.Sprintf("keys of the snapshots of cell %q", k.cell) }

// Format implements fmt.Formatter, whatever the verb.
func (k Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// bound is what a wrapped key belongs to.
func (k *Keys) bound() []byte { return []byte("cellwall snapshot of cell " + k.cell) }

// DataKey implements snapshot.Sealer.
func (k *Keys) DataKey(context.Context) (snapshot.Secret, []byte, error) {
	key, nonce := make([]byte, keyBytes), make([]byte, k.gcm.NonceSize())
	rand.Read(key)
	rand.Read(nonce)
	return key, k.gcm.Seal(nonce, nonce, key, k.bound()), nil
}

// Unwrap implements snapshot.Opener.
func (k *Keys) Unwrap(_ context.Context, wrapped []byte) (snapshot.Secret, error) {
	n := k.gcm.NonceSize()
	if len(wrapped) < n {
		return nil, fmt.Errorf("%w: its data key is cut short", snapshot.ErrForged)
	}
	key, err := k.gcm.Open(nil, wrapped[:n], wrapped[n:], k.bound())
	if err != nil {
		return nil, fmt.Errorf("%w: its data key was wrapped by another key, or for another cell", snapshot.ErrForged)
	}
	return key, nil
}

// Sign implements snapshot.Sealer.
func (k *Keys) Sign(_ context.Context, message []byte) ([]byte, error) {
	h := hmac.New(sha256.New, k.mac)
	h.Write(message)
	return h.Sum(nil), nil
}

// Verify implements snapshot.Opener.
func (k *Keys) Verify(ctx context.Context, message, mac []byte) error {
	want, err := k.Sign(ctx, message)
	if err == nil && !hmac.Equal(want, mac) {
		err = fmt.Errorf("%w: its code was made by another key", snapshot.ErrForged)
	}
	return err
}
