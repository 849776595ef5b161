package main

import (
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/placement"
)

// key is fixed, so that a run can be repeated.
var key = []byte("0123456789abcdef0123456789abcdef")

func hmacV1(s shape, ids []string) (*subject, error) {
	return ours(placement.Config{Scheme: placement.HMACv1, Key: key, Shards: shards(s.n, 1)}, s.k, ids)
}

func rendezvousV1(zones int) func(shape, []string) (*subject, error) {
	return func(s shape, ids []string) (*subject, error) {
		return ours(placement.Config{Scheme: placement.RendezvousV1, Key: key, Shards: shards(s.n, zones)}, s.k, ids)
	}
}

// boundedV1 has a stripe in each zone and lets two tenants share half of a subset, but at least one shard:
// with none, only n/4 tenants have a place.
func boundedV1(s shape, ids []string) (*subject, error) {
	return ours(placement.Config{
		Scheme: placement.BoundedV1, Key: key, Shards: shards(s.n, zones), MaxShared: maxShared(s.k), MaxPerTenant: s.k,
	}, s.k, ids)
}

func maxShared(k int) int { return max(1, k/2) }

// nextBounded is the next number of shards whose stripes are prime powers.
func nextBounded(s shape) int {
	for n := s.n + zones; ; n += zones {
		_, err := boundedV1(shape{n, s.k}, nil)
		if err == nil {
			return n
		}
		if !errors.Is(err, placement.ErrStripes) {
			panic(err)
		}
	}
}

// capacity is how many tenants bounded/v1 places.
func capacity(s shape) int {
	b, err := boundedV1(s, nil)
	if err != nil {
		panic(err)
	}
	return b.slots
}

func ours(c placement.Config, k int, ids []string) (*subject, error) {
	p, err := placement.New(c)
	if err != nil {
		return nil, err
	}
	set, err := p.PerTenant(k)
	if err != nil {
		return nil, err
	}
	appendTo := func(dst []int, tenant int) []int {
		dst, err := set.Append(dst, placement.Tenant{ID: ids[tenant], Slot: uint64(tenant) + 1})
		if err != nil {
			panic(err)
		}
		return dst
	}
	scratch := make([]int, 0, k)
	return &subject{
		slots:  int(p.Slots()),
		lookup: func(tenant int) { appendTo(scratch, tenant) },
		append: appendTo,
		close:  func() {},
	}, nil
}

func shards(n, zones int) []placement.Shard {
	out := make([]placement.Shard, n)
	for i := range out {
		out[i] = placement.Shard{ID: shardName(i), Zone: zoneName(i % zones), Weight: 1}
	}
	return out
}

func shardName(i int) string { return fmt.Sprintf("s%03d", i) }
