package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile/boltfiletest"
)

var bucket = []byte("b")

// look makes the bucket, or reads all of it.
func look(db *DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
}

// filled is the content of a file with some records.
func filled(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.db")
	db, err := Create(path, look)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucket).Put(fmt.Append(nil, i), make([]byte, 1000))
		}); err != nil {
			t.Fatal(err)
		}
	}
	return boltfiletest.Used(t, db.Bolt())
}

func TestOpenRefusesAFileThatWasCutOff(t *testing.T) {
	boltfiletest.Cut(t, filled(t), ErrDamaged, func(path string) error {
		db, err := Open(path, look)
		if err == nil {
			db.Close()
		}
		return err
	})
}

// Each page but one of the two heads, which stand in for each other, is needed.
func TestOpenRefusesPagesThatMakeNoSense(t *testing.T) {
	whole := filled(t)
	page := os.Getpagesize()
	refused := 0
	for at := 0; at < len(whole); at += page {
		text := bytes.Clone(whole)
		copy(text[at:at+page], bytes.Repeat([]byte{0xff}, page))
		path := filepath.Join(t.TempDir(), "f.db")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, look)
		if err == nil {
			db.Close()
			continue // a page that is free
		}
		if refused++; !errors.Is(err, ErrDamaged) {
			t.Errorf("page %d: %v, want %v", at/page, err, ErrDamaged)
		}
	}
	if refused < 20 { // of 100 records of 1,000 bytes each
		t.Errorf("%d damaged pages were found", refused)
	}
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("tenant,cell\n"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, look); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want %v", err, ErrDamaged)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, %v", err)
	}
	if _, err := Open(t.TempDir(), look); err == nil {
		t.Error("a folder was opened")
	}
}

func TestAnErrorOfPrepareClosesTheFile(t *testing.T) {
	path, errNo := filepath.Join(t.TempDir(), "f.db"), errors.New("no")
	if _, err := Create(path, func(*DB) error { return errNo }); !errors.Is(err, errNo) {
		t.Fatal(err)
	}
	db, err := Open(path, look)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

// heldEnv names, to the process that this test starts of itself, the file that it is to hold open.
const heldEnv = "BOLTFILE_TEST_HOLD"

func TestOpenRefusesAFileOfAnotherProcess(t *testing.T) {
	if path := os.Getenv(heldEnv); path != "" {
		if _, err := Create(path, look); err != nil {
			t.Fatal(err)
		}
		fmt.Println("open")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other end closes
		return
	}
	path := filepath.Join(t.TempDir(), "f.db")
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), heldEnv+"="+path)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, look); !errors.Is(err, ErrLocked) {
		t.Errorf("%v, want %v", err, ErrLocked)
	}
	in.Close()
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, look)
	if err != nil {
		t.Fatalf("after the other process: %v", err)
	}
	db.Close()
}
