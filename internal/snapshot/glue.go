package snapshot

import (
	"context"
	"fmt"

	"cellwall.dev/cellwall/internal/directory"
)

// Topologies is where topologies are read; *directory.Directory is one.
type Topologies interface {
	Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error)
}

// Topologies answers from the snapshot, and asks next for what is not in it. A version of a topology never
// changes in what places tenants, so that the snapshot's word is as good as the directory's.
func (h *Holder) Topologies(next Topologies) Topologies { return topologies{h, next} }

type topologies struct {
	h    *Holder
	next Topologies
}

func (t topologies) Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error) {
	if cell == t.h.cell {
		if found, ok := t.h.Topology(version); ok {
			return found, nil
		}
	}
	found, err := t.next.Topology(ctx, cell, version)
	if err != nil {
		return found, fmt.Errorf("%w; and %s", err, t.h.lacks("this topology"))
	}
	return found, nil
}

// Keys answers from the snapshot, and asks next for a version that is not in it. A version of a key never
// changes, and a topology knows the fingerprint of its own, so that no secret store need be asked by a router
// that starts.
func (h *Holder) Keys(next directory.Keys) directory.Keys {
	return func(ctx context.Context, cell, version string) ([]byte, error) {
		if cell == h.cell {
			if key, ok := h.Key(version); ok {
				return key, nil
			}
		}
		key, err := next(ctx, cell, version)
		if err != nil {
			return nil, fmt.Errorf("%w; and %s", err, h.lacks("this version of the key"))
		}
		return key, nil
	}
}

// lacks says why the snapshot is no help.
func (h *Holder) lacks(what string) string {
	if s := h.current.Load(); s != nil {
		return fmt.Sprintf("snapshot %d lacks %s", s.Generation, what)
	}
	return "there is no snapshot"
}
