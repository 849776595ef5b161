package shardkit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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

// TestMemorySweeps by the bubble's clock: what has expired is gone at the next write, and what was given another end
// meanwhile is not.
func TestMemorySweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := shardkit.NewMemory()
		m.Hold("acme", 1)
		write := func(key string, ends int64) {
			t.Helper()
			if err := m.Write(t.Context(), "acme", 1, shardkit.Write{Key: key, Expires: ends}); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now().Unix()
		for i := range 10 {
			write(fmt.Sprint(i), now+int64(i)+1)
		}
		write("0", 0)
		write("1", now+100)
		time.Sleep(5 * time.Second)
		write("new", 0)
		if keys, err := m.List(t.Context(), "acme", ""); err != nil || fmt.Sprint(keys) != "[0 1 5 6 7 8 9 new]" {
			t.Errorf("there are %q, %v", keys, err)
		}
		time.Sleep(100 * time.Second)
		write("newer", 0)
		if keys, err := m.List(t.Context(), "acme", ""); err != nil || fmt.Sprint(keys) != "[0 new newer]" {
			t.Errorf("there are %q, %v", keys, err)
		}
	})
}
