package audit

import (
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/audit/limitdata"
)

// A finding's level is its rule's, and then follows whom it reaches:
//
//   - A shared data path (SD) is an error for two shards as for all: between these two there is no wall.
//   - Shared identity or configuration (SI) is a warning. It is an error when it reaches every shard of a fleet, since
//     then no cell is left that a wrong edit does not reach, and when several may write it (see severalWrite), unless
//     fewer than one shard in smallShare have it.
//   - An account's pool (PL) is a warning. It is an error when all cells of a fleet draw on it and what they are said to
//     draw is more than it has, by a number that is certain. Throttles of APIs (PL005) bound and do not draw.
//
// A fleet has two cells at least, of those that were read and those that the fleet file lists besides. One cell alone
// bounds what is shared in it. Nothing falls below warning for being small, and no level changes of what only
// deployments see (SI007), of which waves decide (SI006, SI009), of a network (SI008), whose parts on the data path are
// SD014's, or of a type that nobody knows (SI000). Within a level what loses more tenants stands first, see
// compareFindings.

// smallShare is one in how many of a fleet's shards are few: 5 %.
const smallShare = 20

// heldLevel are the SI rules whose levels do not follow the share.
var heldLevel = []*rule{&ruleOther, &ruleBuild, &ruleOrder, &ruleNetwork, &ruleVersion}

// weigh raises or lowers the level of a finding by the share of the fleet that it reaches.
func (f *finding) weigh(fleet size) {
	switch f.rule.id[:2] {
	case "SI":
		if slices.Contains(heldLevel, f.rule) {
			return
		}
		n := len(f.shards)
		switch {
		case f.level == Warning && fleet.cells > 1 && n == fleet.shards:
			f.level, f.reason = Error, join(f.reason, fmt.Sprintf("all %d shards of the fleet depend on it: there is none that a wrong edit of it does not reach", n))
		case f.level == Error && n*smallShare < fleet.shards:
			f.level, f.reason = Warning, join(f.reason, fmt.Sprintf("no error, since it reaches %d of %d shards, fewer than one in %d", n, fleet.shards, smallShare))
		}
	case "PL":
		l := f.limit
		if f.rule != &rulePoolAPI && f.level == Warning && fleet.cells > 1 && len(f.cells) == fleet.cells && l != nil && l.Used > l.Max &&
			(l.Source != LimitDefault || l.Certainty == string(limitdata.High)) {
			f.level, f.reason = Error, join(f.reason, fmt.Sprintf("all %d cells of the fleet draw on it, and more than it has", len(f.cells)))
		}
	}
}

func join(reason, more string) string {
	if reason == "" {
		return more
	}
	return reason + "; " + more
}

// size is how many shards and cells there are: those that were read, and those of the fleet file besides.
type size struct{ shards, cells int }

func (g *graph) size(opt *Options) size {
	s := size{shards: len(g.shards), cells: g.cellsOf(opt)}
	for i := range g.unseen {
		s.shards += len(g.unseen[i].shards)
	}
	return s
}

// cellsOf is how many cells there are, those of the fleet file that were not read included.
func (g *graph) cellsOf(opt *Options) int {
	cells := map[place]bool{}
	for _, p := range g.places {
		if p.Cell != "" {
			cells[p.cell()] = true
		}
	}
	for _, s := range g.shards {
		cells[s.cell()] = true
	}
	n := len(cells)
	for i := range g.unseen {
		if u := &g.unseen[i]; u.core && !cells[place{Service: opt.Fleet.Service, Cell: u.Name}] && !cells[place{Cell: opt.Fleet.Service + "-" + u.Name}] {
			n++
		}
	}
	return n
}
