package audit

import (
	"math/bits"
	"slices"
)

// sharers says for each node which shards depend on it, as bit sets of words words a node.
type sharers struct {
	words int
	comp  []int32 // the strongly connected component of each node
	bits  []uint64
}

// of are the shards that depend on node i, in order.
func (s *sharers) of(i int32) []int32 {
	var out []int32
	for w, word := range s.set(i) {
		for word != 0 {
			out = append(out, int32(w*64+bits.TrailingZeros64(word)))
			word &= word - 1
		}
	}
	return out
}

func (s *sharers) set(i int32) []uint64 {
	c := int(s.comp[i])
	return s.bits[c*s.words : (c+1)*s.words]
}

// shared says whether at least two shards depend on node i.
func (s *sharers) shared(i int32) bool {
	n := 0
	for _, word := range s.set(i) {
		n += bits.OnesCount64(word)
	}
	return n > 1
}

// covers says whether every shard of node j is one of node i.
func (s *sharers) covers(i, j int32) bool {
	a, b := s.set(i), s.set(j)
	for w := range a {
		if b[w]&^a[w] != 0 {
			return false
		}
	}
	return true
}

// shares finds who depends on what, for each bond over the edges of it and of stronger ones.
func (g *graph) shares() (by [observed + 1]*sharers) {
	var has [observed + 1]bool
	for _, es := range g.out {
		for i := range es {
			has[es[i].bond] = true
		}
	}
	for b := range by {
		if b > 0 && !has[b] {
			by[b] = by[b-1] // no edge makes a difference
			continue
		}
		by[b] = g.share(bond(b))
	}
	return by
}

// share finds who depends on what, over edges of that bond or a stronger one.
func (g *graph) share(most bond) *sharers {
	comp, count := g.components(most)
	s := &sharers{words: (len(g.shards) + 63) / 64, comp: comp}
	s.bits = make([]uint64, count*s.words)
	starts := make([]int32, count+2) // of each component in members, one place further until they are filled
	for _, c := range comp {
		starts[c+2]++
	}
	for c := range count {
		starts[c+2] += starts[c+1]
	}
	members := make([]int32, len(comp))
	for i, c := range comp {
		members[starts[c+1]] = int32(i)
		starts[c+1]++
		if shard := g.nodes[i].shard; shard >= 0 {
			s.bits[int(c)*s.words+int(shard/64)] |= 1 << (shard % 64)
		}
	}
	// a component is numbered after all that it leads to, so this order sees who depends first
	for c := count - 1; c >= 0; c-- {
		from := s.bits[c*s.words : (c+1)*s.words]
		for _, i := range members[starts[c]:starts[c+1]] {
			for _, e := range g.out[i] {
				if e.bond > most || comp[e.to] == int32(c) {
					continue
				}
				to := s.set(e.to)
				for w := range from {
					to[w] |= from[w]
				}
			}
		}
	}
	return s
}

// components are the strongly connected components after Tarjan, without recursion: a chain of
// references may be as long as the input.
func (g *graph) components(most bond) (comp []int32, count int) {
	const unseen = -1
	n := len(g.nodes)
	comp = make([]int32, n)
	low := make([]int32, n)
	index := make([]int32, n)
	next := make([]int32, n) // the edge to follow next
	for i := range n {
		comp[i], index[i] = unseen, unseen
	}
	var open, path []int32 // Tarjan's stack, and the way to where the search is
	clock := int32(0)
	for root := range n {
		if index[root] != unseen {
			continue
		}
		path = append(path, int32(root))
		for len(path) > 0 {
			v := path[len(path)-1]
			if index[v] == unseen {
				index[v], low[v] = clock, clock
				clock++
				open = append(open, v)
			}
			if w, ok := g.step(v, next, most); ok {
				switch {
				case index[w] == unseen:
					path = append(path, w)
				case comp[w] == unseen:
					low[v] = min(low[v], index[w])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				u := path[len(path)-1]
				low[u] = min(low[u], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			for {
				w := open[len(open)-1]
				open = open[:len(open)-1]
				comp[w] = int32(count)
				if w == v {
					break
				}
			}
			count++
		}
	}
	return comp, count
}

// step is the next edge of v to follow.
func (g *graph) step(v int32, next []int32, most bond) (int32, bool) {
	for int(next[v]) < len(g.out[v]) {
		e := g.out[v][next[v]]
		next[v]++
		if e.bond <= most {
			return e.to, true
		}
	}
	return 0, false
}

// searcher finds shortest paths from one shard's resources.
type searcher struct {
	*graph
	roots [][]int32 // by shard
	from  []int32   // the node before, -1 at a root
	by    []int32   // the edge that led here, an index into out[from]
	mark  []int32   // the search in which from and by were written
	run   int32
	queue []int32
}

func (g *graph) searcher() *searcher {
	s := &searcher{graph: g, roots: make([][]int32, len(g.shards)), from: make([]int32, len(g.nodes)),
		by: make([]int32, len(g.nodes)), mark: make([]int32, len(g.nodes))}
	for i := range g.nodes {
		if shard := g.nodes[i].shard; shard >= 0 {
			s.roots[shard] = append(s.roots[shard], int32(i))
		}
	}
	return s
}

// search walks breadth first from all resources of the shard at once.
func (s *searcher) search(shard int32, most bond) {
	s.run++
	s.queue = append(s.queue[:0], s.roots[shard]...)
	for _, i := range s.queue {
		s.from[i], s.mark[i] = -1, s.run
	}
	for head := 0; head < len(s.queue); head++ {
		v := s.queue[head]
		for k, e := range s.out[v] {
			if e.bond > most || s.mark[e.to] == s.run {
				continue
			}
			s.mark[e.to], s.from[e.to], s.by[e.to] = s.run, v, int32(k)
			s.queue = append(s.queue, e.to)
		}
	}
}

// hop is one node of a path and the edge that led to it; the first has none.
type hop struct {
	node int32
	edge *edge
}

// path is the way from the shard of the last search to node i.
func (s *searcher) path(i int32) []hop {
	var hops []hop
	for i >= 0 && s.mark[i] == s.run {
		h := hop{node: i}
		if s.from[i] >= 0 {
			h.edge = &s.out[s.from[i]][s.by[i]]
		}
		hops = append(hops, h)
		i = s.from[i]
	}
	slices.Reverse(hops)
	return hops
}
