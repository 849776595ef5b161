package boltitems

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltfile/boltfiletest"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Whatever a file's pages say, every operation ends, and with an error that tells of the damage or with none.
func TestADamagedFileEndsNoProcess(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "items.db"))
	const tenants = 150
	for i := range tenants {
		put(t, s, fmt.Sprint("t", i), "1", strings.Repeat("x", 1000))
	}
	close(s.stop)
	<-s.ended
	whole := boltfiletest.Used(t, s.db.Bolt())
	met := boltfiletest.Damage(t, whole, 90, boltfile.ErrDamaged, func(path string, damage func()) (errs []error) {
		s, err := Open(path)
		if err != nil {
			return []error{err}
		}
		damage()
		note := func(err error) {
			// A holding that was spoilt may be gone, or of any epoch.
			if err != nil && !errors.Is(err, shardkit.ErrNotHeld) {
				errs = append(errs, err)
			}
		}
		h := s.Holds()
		for i := range tenants {
			tenant := fmt.Sprint("t", i)
			_, _, err := s.Get(t.Context(), tenant, "1")
			note(err)
			_, err = s.List(t.Context(), tenant, "", "")
			note(err)
			_, _, err = s.Held(t.Context(), "eu-1", "s01", tenant)
			note(err)
			if i%7 == 0 {
				note(s.Write(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: 1}, shardkit.Write{Key: "2", Value: []byte("y")}))
				note(h.Hold(t.Context(), "eu-1", "s02", directory.Holding{Tenant: tenant, Epoch: 2}))
				note(h.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: 2}))
			}
		}
		_, err = h.Holdings(t.Context(), "eu-1", "s01", "", 2*tenants)
		note(err)
		note(s.Close())
		return errs
	})
	if met < 30 {
		t.Errorf("damage was met in %d trials of 90", met)
	}
}
