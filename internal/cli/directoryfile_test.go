package cli

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/boltitems"
)

// Only cell open and topology publish make a directory, and none of a file that was one.
func TestOpeningMakesNoDirectory(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	const holds = "d.db" + holdsSuffix
	whole := map[string][]byte{}
	for _, name := range []string{"d.db", holds} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = text
	}
	commands := []string{"tenant list", "cell headroom", "tenant add new", "cell close eu-1", "topology show eu-1", "shard tenants eu-1/s01", "cell open eu-1 --capacity 9", "topology publish eu-1 --drain s01"}
	put := func(name string, text []byte) {
		t.Helper()
		// As another file: one that was mapped before keeps what it was.
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if text == nil {
			return
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name        string
		text        []byte
		code        int
		words, next string // of all commands but those that add cells
		make        string // of those
	}{
		{"d.db", nil, ExitUsage, "there is no such file", "cell open makes", "says which shards hold its tenants"},
		{"d.db", []byte{}, ExitFailed, "it has 0 bytes", "put a copy of it back", "says which shards hold its tenants"},
		{holds, nil, ExitFailed, "missing or empty", "cell reconcile CELL", "cell reconcile CELL"},
		{holds, []byte{}, ExitFailed, "missing or empty", "cell reconcile CELL", "cell reconcile CELL"},
		{holds, whole["d.db"], ExitFailed, "no store", "put a copy of it back", "no store"},
		{"d.db", whole[holds], ExitFailed, "no directory", "put a copy of it back", "no directory"},
	} {
		put(c.name, c.text)
		for _, args := range commands {
			words, next, code := c.words, c.next, c.code
			if strings.HasPrefix(args, "cell open") || strings.HasPrefix(args, "topology publish") {
				words, next = c.make, c.make
				if len(c.text) == 0 && c.name == "d.db" {
					code = ExitFound
				}
			}
			got, out, errs := o.run(strings.Fields(args)...)
			if got != code || out != "" || !strings.Contains(errs, words) || !strings.Contains(errs, next) {
				t.Errorf("%s of %d bytes, %s: status %d, stdout %q, stderr %q; want %d, %q and %q", c.name, len(c.text), args, got, out, errs, code, words, next)
			}
			if now, err := os.ReadFile(c.name); c.text == nil && !errors.Is(err, os.ErrNotExist) || !bytes.Equal(now, c.text) {
				t.Fatalf("%s made %s of %d bytes, %v", args, c.name, len(now), err)
			}
		}
		put(c.name, whole[c.name])
	}
	o.must("tenant", "show", "acme")
	put(holds, nil)
	put("d.db", nil)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	// Nobody is held yet, so nothing is lost with the file.
	put(holds, nil)
	o.must("topology", "publish", "eu-1")
	o.must("tenant", "add", "acme")
}

// What was damaged ends a command with a sentence, whatever the command.
func TestADamagedFileEndsNoCommandInAPanic(t *testing.T) {
	o := openOffice(t)
	for _, name := range strings.Fields("a b c d e f g h i j k l m n o p") {
		o.must("tenant", "add", name, "--because", strings.Repeat("x", 1000))
	}
	const holds = "d.db" + holdsSuffix
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	whole := map[string][]byte{}
	for _, name := range []string{"d.db", holds} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = text
	}
	page, damaged := os.Getpagesize(), 0
	for range 20 {
		for name, text := range whole {
			text = bytes.Clone(text)
			at := page * rng.IntN(len(text)/page)
			for i := range page {
				text[at+i] = byte(rng.Uint32())
			}
			if err := errors.Join(os.Remove(name), os.WriteFile(name, text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range []string{"tenant list", "tenant show a", "tenant history b", "shard tenants eu-1/s01", "tenant suspend c", "tenant add new", "topology publish eu-1 --drain s01", "tenant export"} {
			code, _, errs := o.run(strings.Fields(args)...)
			if strings.Contains(errs, "the file is damaged") {
				damaged++
				if code != ExitFailed || strings.Contains(errs, "--operation") {
					t.Errorf("%s: status %d, stderr %q", args, code, errs)
				}
			}
		}
		for name, text := range whole {
			if err := errors.Join(os.Remove(name), os.WriteFile(name, text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if damaged == 0 {
		t.Error("no damage was met")
	}
}

func TestADirectoryIsAFile(t *testing.T) {
	o := openOffice(t)
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"folder", "/dev/null"} {
		for _, args := range []string{"tenant list", "cell open eu-1 --capacity 9"} {
			code, _, errs := o.bare(append(strings.Fields(args), "--directory", path)...)
			if code != ExitUsage || !strings.Contains(errs, "it is no file, but a") || strings.Contains(errs, "damaged") {
				t.Errorf("%s: status %d, stderr %q", path, code, errs)
			}
		}
	}
	items, err := boltitems.Open("d.db" + holdsSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := items.Close(); err != nil {
		t.Fatal(err)
	}
}
