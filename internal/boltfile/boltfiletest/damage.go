package boltfiletest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

// Damage gives use copies of whole in which pages are not what was written: bytes at random, zeros, another
// page's content, some bits turned. Use opens the file, calls damage, and does everything that can be done
// with it; damage writes the damage, before or after it was opened. Each error that use returns is to be want,
// and a panic of any goroutine is a failure. Returned is in how many of the trials damage was met.
func Damage(t *testing.T, whole []byte, trials int, want error, use func(path string, damage func()) []error) (met int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	page := os.Getpagesize()
	for trial := range trials {
		path := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		open := trial%3 == 2 // it is damaged while it is open
		damage := func() {
			for range 1 + rng.IntN(4) {
				at := page * rng.IntN(len(whole)/page)
				if open { // what becomes of both heads then is in boltfile's doc comment
					at = max(at, 2*page)
				}
				writeAt(t, path, at, spoilt(rng, whole, at, page))
			}
		}
		if !open {
			damage()
			damage = func() {}
		}
		for _, err := range calmly(t, func() []error { return use(path, damage) }) {
			if !errors.Is(err, want) {
				t.Errorf("trial %d: %v, want %v", trial, err, want)
				continue
			}
			met++
			break
		}
	}
	return met
}

// spoilt is a page that is not the one at at.
func spoilt(rng *rand.Rand, whole []byte, at, page int) []byte {
	text := bytes.Clone(whole[at : at+page])
	const (
		branch   = 1 // the type of a page whose bits, turned, may lead in a circle: see boltfile.DB
		freelist = 16
	)
	kind := rng.IntN(4)
	if text[8] == branch {
		kind = rng.IntN(3)
	}
	switch kind {
	case 0:
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
	case 1:
		clear(text)
	case 2:
		other := page * rng.IntN(len(whole)/page)
		copy(text, whole[other:other+page])
	case 3: // most often in what says where things are, with the page's number and type as they were
		for range 1 + rng.IntN(8) {
			at := 10 + rng.IntN(page/8)
			if at >= 12 && at < 16 && text[8] != freelist { // how far it goes on: see boltfile.DB, too
				continue
			}
			text[at] ^= 1 << rng.IntN(8)
		}
	}
	return text
}

func writeAt(t *testing.T, path string, at int, text []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(text, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// calmly takes up a panic of this goroutine.
func calmly(t *testing.T, use func() []error) (errs []error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return use()
}
