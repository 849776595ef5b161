package blast

import (
	"fmt"
	"math"
)

// Impact is what a failure does to tenants.
type Impact struct {
	FullyDown int // tenants with no shard left
	Degraded  int // tenants that lost at least one; includes the fully down

	FullyDownLoad float64 // load of the fully down
	DegradedLoad  float64 // load of the degraded

	// Capacity lost, counted in tenants and in load: each tenant by the share of its shards that
	// failed, so that two tenants with one of two shards left are one tenant lost. Where state has a
	// home (state.mode: home), each resource key has one member of the subset, and these are the keys
	// that are lost with it: no failover brings them back.
	LostTenants float64
	LostLoad    float64
}

// Loss is the tenants that lost the same number of as many shards.
type Loss struct {
	Lost    int // shards that failed, 0 to Of
	Of      int // shards of the subset
	Tenants int
	Load    float64
}

// Share is the part of its capacity that each of the tenants lost, 0 to 1.
func (l Loss) Share() float64 { return float64(l.Lost) / float64(l.Of) }

// Fail counts the tenants that the failure of these shards hits. ErrFailed when the list is empty,
// names a shard twice or names one that does not exist. The work is one look at each different subset
// for each of its members that failed.
func (p *Population) Fail(failed []int) (Impact, error) {
	if err := p.check(failed); err != nil {
		return Impact{}, err
	}
	return newTally(p).fail(failed), nil
}

// Losses is the distribution of capacity lost per tenant after the failure of these shards: by size of
// subset, then by shards lost, both ascending, those who lost none included. Errors are those of Fail.
func (p *Population) Losses(failed []int) ([]Loss, error) {
	if err := p.check(failed); err != nil {
		return nil, err
	}
	t := newTally(p)
	t.fail(failed)
	var losses []Loss
	for i, c := range p.classes {
		rest := cell{c.tenants, c.load}
		for _, hit := range t.hit[i] {
			rest.tenants -= hit.tenants
			rest.load -= hit.load
		}
		for lost := 0; lost <= min(c.size, len(failed)); lost++ {
			of := rest
			if lost > 0 {
				of = t.hit[i][lost-1]
			}
			if of.tenants > 0 {
				losses = append(losses, Loss{lost, c.size, int(of.tenants), p.amount(of.load)})
			}
		}
	}
	return losses, nil
}

// check refuses what is no set of shards that can fail.
func (p *Population) check(failed []int) error {
	if len(failed) == 0 {
		return fmt.Errorf("%w: name at least one shard", ErrFailed)
	}
	return p.checkNamed(failed)
}

// checkNamed refuses a list that names shards that do not exist, or one twice.
func (p *Population) checkNamed(failed []int) error {
	seen := make(map[int]bool, len(failed))
	for _, shard := range failed {
		if shard < 0 || shard >= p.shards {
			return fmt.Errorf("%w: shard %d does not exist, shards are 0 to %d", ErrFailed, shard, p.shards-1)
		}
		if seen[shard] {
			return fmt.Errorf("%w: shard %d is named twice", ErrFailed, shard)
		}
		seen[shard] = true
	}
	return nil
}

// cell is some tenants.
type cell struct {
	tenants uint64
	load    uint64 // in units
}

// tally counts one failure after another, with scratch that is used again.
type tally struct {
	p    *Population
	lost []uint32 // members that failed, of each group; zero between failures
	met  []uint32 // the groups with any
	hit  [][]cell // by class, then by shards lost less 1
}

func newTally(p *Population) *tally {
	t := &tally{p: p, lost: make([]uint32, len(p.groups)), hit: make([][]cell, len(p.classes))}
	for i, c := range p.classes {
		t.hit[i] = make([]cell, c.size)
	}
	return t
}

// fail counts the failure of these shards, which have been checked.
func (t *tally) fail(failed []int) Impact {
	for _, of := range t.hit {
		clear(of)
	}
	t.met = t.met[:0]
	for _, shard := range failed {
		for _, g := range t.p.with[shard] {
			if t.lost[g] == 0 {
				t.met = append(t.met, g)
			}
			t.lost[g]++
		}
	}
	for _, at := range t.met {
		g := &t.p.groups[at]
		to := &t.hit[g.class][t.lost[at]-1]
		to.tenants += g.tenants
		to.load += g.load
		t.lost[at] = 0
	}
	var sum impact
	for i, of := range t.hit {
		for lost, c := range of[:min(len(of), len(failed))] {
			sum.add(lost+1, t.p.classes[i].size, c)
		}
	}
	return sum.of(t.p)
}

// impact is an Impact that is being added up. Parts come by size, then by shards lost, so that however
// they were counted the fractions are added in one order.
type impact struct {
	down, degraded        cell
	lostTenants, lostLoad float64
}

func (i *impact) add(lost, size int, c cell) {
	if lost == size {
		i.down.tenants += c.tenants
		i.down.load += c.load
	}
	i.degraded.tenants += c.tenants
	i.degraded.load += c.load
	share := float64(lost) / float64(size)
	i.lostTenants += share * float64(c.tenants)
	i.lostLoad += share * float64(c.load)
}

func (i *impact) of(p *Population) Impact {
	return Impact{
		FullyDown:     int(i.down.tenants),
		Degraded:      int(i.degraded.tenants),
		FullyDownLoad: p.amount(i.down.load),
		DegradedLoad:  p.amount(i.degraded.load),
		LostTenants:   i.lostTenants,
		LostLoad:      math.Ldexp(i.lostLoad, p.step),
	}
}
