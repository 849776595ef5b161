package directory_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

// The fingerprint is kept in topologies, so that it may never come out otherwise. The value was computed with
// Python: hmac.new(bytes(range(32)), b"cellwall placement key check", "sha256").hexdigest()[:16].
func TestKeyCheck(t *testing.T) {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	if got := directory.KeyCheck(key); got != "dac5fb09d8b95edf" {
		t.Errorf("fingerprint %s", got)
	}
	top := directory.Topology{Cell: "eu-1", Version: 1, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2}, KeyVersion: "1", KeyCheck: directory.KeyCheck(key)}
	for _, id := range []string{"s01", "s02", "s03"} {
		top.Shards = append(top.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	if err := top.Check(nil); err != nil {
		t.Error(err)
	}
	if _, err := top.Placer(key); err != nil {
		t.Error(err)
	}
	if _, err := top.Placer(bytes.Repeat([]byte{7}, 32)); !errors.Is(err, directory.ErrKey) {
		t.Errorf("by another key: %v", err)
	}
	plain, bad, another := top, top, top
	plain.KeyCheck, bad.KeyCheck, another.KeyCheck = "", "ABCDEF", "0123456789abcdef"
	if _, err := plain.Placer(bytes.Repeat([]byte{7}, 32)); err != nil {
		t.Errorf("without a fingerprint: %v", err)
	}
	if err := bad.Check(nil); !errors.Is(err, directory.ErrInvalid) {
		t.Errorf("a fingerprint that is none: %v", err)
	}
	for _, c := range []struct {
		to   directory.Topology
		anew bool
	}{{top, false}, {plain, false}, {another, true}} {
		if anew, err := top.Anew(c.to); err != nil || anew != c.anew {
			t.Errorf("to fingerprint %q: anew %t, %v", c.to.KeyCheck, anew, err)
		}
	}
}

// The first to claim a directory has it, and one that nobody claimed is anybody's, as those of before are.
func TestClaim(t *testing.T) {
	ctx := context.Background()
	d, err := directory.Open(ctx, directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	c := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "ann", At: time.Now()}
	}
	if _, err := d.AddCell(ctx, directory.Cell{Name: "eu-1"}, c("add")); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"orders", "other"} {
		if err := d.OfService(ctx, service); err != nil {
			t.Errorf("nobody's: %v", err)
		}
	}
	won := make(chan string, 16)
	for range 8 {
		for _, service := range []string{"orders", "other"} {
			go func() {
				if d.Claim(ctx, service, c("claim "+service)) != nil {
					service = ""
				}
				won <- service
			}()
		}
	}
	owners := map[string]int{}
	for range 16 {
		owners[<-won]++
	}
	if len(owners) != 2 || owners[""] != 8 {
		t.Fatalf("claimed by %v; want one service eight times, and the other refused", owners)
	}
	for service, times := range map[string]int{"orders": owners["orders"], "other": owners["other"]} {
		if err := d.OfService(ctx, service); errors.Is(err, directory.ErrService) != (times == 0) {
			t.Errorf("%s, which claimed it %d times: %v", service, times, err)
		}
	}
	if err := d.Claim(ctx, "", c("nobody")); !errors.Is(err, directory.ErrInvalid) {
		t.Errorf("no service: %v", err)
	}
}
