package boltdir

import (
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltfile/boltfiletest"
	"cellwall.dev/cellwall/internal/directory"
)

func TestOpenRefusesAFileThatWasCutOff(t *testing.T) {
	d := open(t, file(t))
	for i := range 100 {
		op := directory.Put(directory.Key{Part: fmt.Sprint("TENANT#", i), Sort: "ENTRY"}, 0, make([]byte, 2000))
		if err := d.Write(t.Context(), directory.Batch{Operation: fmt.Sprint(i), Ops: []directory.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
	d.writer.stop()
	boltfiletest.Cut(t, boltfiletest.Used(t, d.db.Bolt()), boltfile.ErrDamaged, func(path string) error {
		d, err := Open(path)
		if err == nil {
			err = d.Close()
		}
		return err
	})
}
