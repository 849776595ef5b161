package main

import (
	"crypto/sha256"
	"encoding/binary"

	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// dealer is Kubernetes' shuffle sharding. It deals by a 64-bit hash, which API priority and fairness, for
// which it was made, takes from the first 8 bytes of a SHA-256.
func dealer(s shape, ids []string) (*subject, error) {
	d, err := shufflesharding.NewDealer(s.n, s.k)
	if err != nil {
		return nil, err
	}
	hand := make([]int, s.k)
	return &subject{
		lookup: func(tenant int) { d.DealIntoHand(hashOf(ids[tenant]), hand) },
		append: func(dst []int, tenant int) []int {
			return append(dst, d.DealIntoHand(hashOf(ids[tenant]), make([]int, s.k))...)
		},
		close: func() {},
	}, nil
}

// dealerAlone is the same with hashes made in advance.
func dealerAlone(s shape, ids []string) (*subject, error) {
	d, err := shufflesharding.NewDealer(s.n, s.k)
	if err != nil {
		return nil, err
	}
	hashes := make([]uint64, len(ids))
	for i, id := range ids {
		hashes[i] = hashOf(id)
	}
	hand := make([]int, s.k)
	return &subject{
		lookup: func(tenant int) { d.DealIntoHand(hashes[tenant], hand) },
		append: func(dst []int, tenant int) []int {
			return append(dst, d.DealIntoHand(hashes[tenant], make([]int, s.k))...)
		},
		close: func() {},
	}, nil
}

func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:8])
}
