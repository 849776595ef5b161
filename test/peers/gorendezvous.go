package main

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/dgryski/go-rendezvous"
)

// salted makes subsets of go-rendezvous, which gives one node: it asks again under the id with a number
// behind it, until k nodes are different. Its scores are not public, so its best k cannot be read; taking
// the winner out by Remove panics in this version; and a table without the winners, made for each lookup,
// would cost more than the lookup. The hash is the one that go-redis gives it.
func salted(s shape, ids []string) (*subject, error) {
	nodes := make([]string, s.n)
	numbers := make(map[string]int, s.n)
	for i := range nodes {
		nodes[i] = shardName(i)
		numbers[nodes[i]] = i
	}
	r := rendezvous.New(nodes, xxhash.Sum64String)
	find := func(found []string, id string) []string {
		for salt, key := 0, id; len(found) < s.k; {
			if node := r.Lookup(key); !slices.Contains(found, node) {
				found = append(found, node)
			}
			salt++
			if len(found) < s.k {
				key = id + "#" + strconv.Itoa(salt)
			}
		}
		return found
	}
	scratch := make([]string, 0, s.k)
	return &subject{
		lookup: func(tenant int) { find(scratch, ids[tenant]) },
		append: func(dst []int, tenant int) []int {
			for _, node := range find(make([]string, 0, s.k), ids[tenant]) {
				dst = append(dst, numbers[node])
			}
			return dst
		},
		close: func() {},
	}, nil
}
