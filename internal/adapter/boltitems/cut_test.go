package boltitems

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltfile/boltfiletest"
)

func TestOpenRefusesAFileThatWasCutOff(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "items.db"))
	for i := range 100 {
		put(t, s, fmt.Sprint("t", i), "1", strings.Repeat("x", 1000))
	}
	close(s.stop)
	<-s.ended
	boltfiletest.Cut(t, boltfiletest.Used(t, s.db.Bolt()), boltfile.ErrDamaged, func(path string) error {
		s, err := Open(path)
		if err == nil {
			err = s.Close()
		}
		return err
	})
}
