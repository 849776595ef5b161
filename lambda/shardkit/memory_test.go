package shardkit_test

import (
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

func TestMemory(t *testing.T) {
	shardkittest.Run(t, func(*testing.T) shardkittest.Shard {
		m := shardkit.NewMemory()
		return shardkittest.Shard{
			Items:   m,
			Hold:    func(tenant string, epoch uint64) error { m.Hold(tenant, epoch); return nil },
			Release: func(tenant string, epoch uint64) error { m.Release(tenant, epoch); return nil },
		}
	})
}

func TestUnchecked(t *testing.T) {
	m := shardkit.NewUnchecked()
	for _, epoch := range []uint64{0, 1, 1 << 63} {
		if err := m.Write(t.Context(), "anybody", epoch, shardkit.Write{Key: "a"}); err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	if since, held, err := m.Held(t.Context(), "nobody"); since != 0 || !held || err != nil {
		t.Errorf("held %t since %d, %v", held, since, err)
	}
}
