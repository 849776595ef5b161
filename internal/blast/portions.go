package blast

// portions is how many tenants hold each shard, each pair and each triple, by size of subset. A set of
// shards has the number that its position in colexicographic order is: a + C(b, 2) + C(c, 3) for
// a < b < c.
type portions struct {
	p      *Population
	failed int // 1 to 3
	one    [][]cell
	two    [][]cell
	three  [][]cell
}

func newPortions(p *Population, failed int) *portions {
	t := &portions{p: p, failed: failed}
	table := func(sets int) [][]cell {
		by := make([][]cell, len(p.classes))
		for i := range by {
			by[i] = make([]cell, sets)
		}
		return by
	}
	n := p.shards
	t.one = table(n)
	if failed > 1 {
		t.two = table(choose2(n))
	}
	if failed > 2 {
		t.three = table(choose3(n))
	}
	for i := range p.groups {
		t.count(&p.groups[i])
	}
	return t
}

func choose2(n int) int { return n * (n - 1) / 2 }

func choose3(n int) int { return n * (n - 1) / 2 * (n - 2) / 3 }

// count adds a group to each shard, pair and triple of its members.
func (t *portions) count(g *group) {
	of := cell{g.tenants, g.load}
	for i, c := range g.members {
		t.one[g.class][c].add(of)
		if t.failed == 1 {
			continue
		}
		two := t.two[g.class][choose2(int(c)):]
		for j, b := range g.members[:i] {
			two[b].add(of)
			if t.failed == 2 {
				continue
			}
			three := t.three[g.class][choose3(int(c))+choose2(int(b)):]
			for _, a := range g.members[:j] {
				three[a].add(of)
			}
		}
	}
}

func (c *cell) add(other cell) {
	c.tenants += other.tenants
	c.load += other.load
}

// less is c - x·other. What comes of it is never negative, and what is in between wraps around.
func (c cell) less(x uint64, other cell) cell {
	return cell{c.tenants - x*other.tenants, c.load - x*other.load}
}

// each gives the impact of every set in colexicographic order. The set is one slice.
func (t *portions) each(to func([]int, Impact)) {
	n := t.p.shards
	set := make([]int, t.failed)
	switch t.failed {
	case 1:
		for a := range n {
			set[0] = a
			to(set, t.single(a))
		}
	case 2:
		for b := range n {
			for a := range b {
				set[0], set[1] = a, b
				to(set, t.pair(a, b))
			}
		}
	case 3:
		for c := range n {
			for b := range c {
				for a := range b {
					set[0], set[1], set[2] = a, b, c
					to(set, t.triple(a, b, c))
				}
			}
		}
	}
}

func (t *portions) single(a int) Impact {
	var sum impact
	for i, c := range t.p.classes {
		sum.add(1, c.size, t.one[i][a])
	}
	return sum.of(t.p)
}

// pair: those who hold exactly one of the two hold the first or the second, less twice those who hold
// both.
func (t *portions) pair(a, b int) Impact {
	ab := choose2(b) + a
	var sum impact
	for i, c := range t.p.classes {
		one, two := t.one[i], t.two[i][ab]
		hold := one[a]
		hold.add(one[b])
		sum.add(1, c.size, hold.less(2, two))
		if c.size > 1 {
			sum.add(2, c.size, two)
		}
	}
	return sum.of(t.p)
}

func (t *portions) triple(a, b, c int) Impact {
	ab, ac, bc := choose2(b)+a, choose2(c)+a, choose2(c)+b
	abc := choose3(c) + ab
	var sum impact
	for i, class := range t.p.classes {
		one, two, three := t.one[i], t.two[i], t.three[i][abc]
		hold := one[a]
		hold.add(one[b])
		hold.add(one[c])
		both := two[ab]
		both.add(two[ac])
		both.add(two[bc])
		exactlyOne := hold.less(2, both)
		exactlyOne.add(cell{3 * three.tenants, 3 * three.load})
		sum.add(1, class.size, exactlyOne)
		if class.size > 1 {
			sum.add(2, class.size, both.less(3, three))
		}
		if class.size > 2 {
			sum.add(3, class.size, three)
		}
	}
	return sum.of(t.p)
}
