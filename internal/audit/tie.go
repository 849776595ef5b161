package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tied is a reference whose direction of fate is decided when all owners are known.
type tied struct {
	from, to int32
	how      how
	at       string
	tie      tie
}

// refer makes the edge of one reference, or keeps it until owners are known.
func (b *builder) refer(from, to int32, h how, path []string) {
	if from == to {
		return
	}
	at := b.dotted(path)
	n := &b.nodes[from]
	t := tieReference
	if n.kind == resourceNode {
		t = tieOf(n.typ, path)
	}
	switch t {
	case tieReference:
		b.out[from] = append(b.out[from], edge{to: to, how: h, at: at})
	case tieWeak:
		b.out[from] = append(b.out[from], edge{to: to, how: h, at: at, bond: observed})
	default:
		b.pending = append(b.pending, tied{from, to, h, at, t})
	}
}

// dotted is a path as one string. Resources of one type have the same paths, of which each is kept once.
func (b *builder) dotted(path []string) string {
	b.path = b.path[:0]
	for i, key := range path {
		if i > 0 {
			b.path = append(b.path, '.')
		}
		b.path = append(b.path, key...)
	}
	at, ok := b.paths[string(b.path)]
	if !ok {
		at = string(b.path)
		b.paths[at] = at
	}
	return at
}

// tieUp gives attachments and grants their direction. See the package comment, "Fate".
func (b *builder) tieUp() {
	targets := make([][]int32, len(b.pending))
	for i, p := range b.pending {
		targets[i] = b.targets(p.to)
	}
	for i, p := range b.pending {
		if p.tie == tieGrant {
			continue
		}
		for _, to := range targets[i] {
			b.joined[p.from] = append(b.joined[p.from], joined{firstKey(p.at), to, p.tie})
		}
	}
	b.adoptParts()
	b.adopt(targets)
	for i, p := range b.pending {
		forward := false
		for _, to := range targets[i] {
			if to == p.from {
				continue
			}
			mine, theirs := b.nodes[p.from].shard, b.nodes[to].shard
			outward := theirs < 0 && (mine >= 0 || p.tie != tieServed)
			switch {
			case p.tie == tieGrant:
				forward = forward || mine >= 0 || theirs < 0
				continue
			case outward || mine >= 0 && theirs >= 0:
				forward = true
			case theirs >= 0 && joints[b.nodes[p.from].typ]:
				forward = true // what it joins depends on each other through it
			case theirs < 0 && b.nodes[p.from].typ == typeRecord:
				forward = true // who goes by the name goes to what it names
			}
			if !outward {
				b.out[to] = append(b.out[to], edge{to: p.from, how: byAttachment, at: p.at})
			}
		}
		if forward {
			b.out[p.from] = append(b.out[p.from], edge{to: p.to, how: p.how, at: p.at})
		}
	}
}

// partLevels is how deep parts nest: the rule of a listener of a load balancer.
const partLevels = 3

// adoptParts gives a part of nobody's to the shard that its whole belongs to.
func (b *builder) adoptParts() {
	for range partLevels {
		for i := range int32(len(b.nodes)) {
			n := &b.nodes[i]
			if n.kind != resourceNode || n.shard >= 0 {
				continue
			}
			part := traitsOf(n.typ).partOf
			if part == "" {
				continue
			}
			if wholes := b.named(i, part); len(wholes) == 1 {
				n.shard = b.nodes[wholes[0]].shard
			}
		}
	}
}

// adopt gives a joint of nobody's to the one shard that it attaches to.
func (b *builder) adopt(targets [][]int32) {
	const many = -2
	adopts := map[int32]int32{}
	for i, p := range b.pending {
		n := &b.nodes[p.from]
		if _, joint := joints[n.typ]; !joint || n.shard >= 0 || p.tie == tieGrant {
			continue
		}
		for _, to := range targets[i] {
			shard := b.nodes[to].shard
			if shard < 0 {
				continue
			}
			if known, ok := adopts[p.from]; ok && known != shard {
				shard = many
			}
			adopts[p.from] = shard
		}
	}
	for at, shard := range adopts {
		if shard != many {
			b.nodes[at].shard = shard
		}
	}
}

// reviewKey is one thing that could not be judged; equal ones are reported once.
type reviewKey struct {
	rule *rule
	file string
	id   string // logical id, or ""
	what string
}

// maxReviews bounds the review items of one rule, so that a broken macro does not bury the findings.
// The last one says how many there are.
const maxReviews = 200

func (b *builder) review(k reviewKey) { b.reviews[k] = true }

// findings are the review items, sorted.
func (b *builder) findings() []finding {
	keys := make([]reviewKey, 0, len(b.reviews))
	for k := range b.reviews {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y reviewKey) int {
		return cmp.Or(strings.Compare(x.rule.id, y.rule.id), strings.Compare(x.file, y.file), strings.Compare(x.id, y.id), strings.Compare(x.what, y.what))
	})
	var out []finding
	count := map[*rule]int{}
	for _, k := range keys {
		count[k.rule]++
		if count[k.rule] <= maxReviews {
			out = append(out, reviewOf(finding{rule: k.rule, file: k.file, id: k.id, message: k.what}))
		}
	}
	for _, r := range []*rule{&ruleUnresolved, &ruleMaybe, &rulePattern, &ruleUnread, &ruleNetwork} {
		if more := count[r] - maxReviews; more > 0 {
			out = append(out, reviewOf(finding{rule: r, message: fmt.Sprintf("%d more of this kind are not listed", more)}))
		}
	}
	return out
}

// reviewOf completes a review item. A network that only a deployment knows needs no review within one cell.
func reviewOf(f finding) finding {
	f.level, f.node = Review, -1
	if f.rule == &ruleNetwork {
		f.level, f.reason = Info, network
	}
	return f
}

// describe names a node for a message: its type, its name and where it stands.
func (g *graph) describe(i int32) string {
	n := &g.nodes[i]
	s := cmp.Or(n.typ, "resource") + " " + quote(cmp.Or(n.name, n.id))
	if n.stack >= 0 {
		s += " of stack " + g.stacks[n.stack].Name
	}
	return s
}

func quote(s string) string { return strconv.Quote(s) }
