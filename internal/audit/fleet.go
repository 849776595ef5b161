package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
)

// Fleet is what a fleet file says of the stacks that an audit should see.
type Fleet struct {
	Service string
	Cells   []FleetCell
	// Waves are the cells' names of each wave of a rollout, in order. None when nobody knows.
	Waves [][]string
}

// FleetCell is one cell of a fleet.
type FleetCell struct {
	Name, Account, Region string
	Shards                []string // ids
	PerTenant             int      // shards that serve one tenant
	Reserved              int      // Lambda concurrency that the cell reserves, its shards included
	ShardReserved         int      // of Reserved, what each shard does
}

// FleetOf takes from a fleet what an audit needs of it.
func FleetOf(f *fleet.Fleet) *Fleet {
	out := &Fleet{Service: f.Service}
	for _, c := range f.Cells {
		cell := FleetCell{Name: c.Name, Account: c.Account, Region: c.Region, PerTenant: f.Placement.PerTenant, Reserved: f.ReservedConcurrency(c)}
		for _, s := range c.Shards {
			cell.Shards = append(cell.Shards, s.ID)
		}
		if f.Shard.Lambda != nil {
			cell.ShardReserved = f.Shard.Lambda.ReservedConcurrency
		}
		out.Cells = append(out.Cells, cell)
	}
	for _, w := range f.Resolve() {
		out.Waves = append(out.Waves, w.Cells)
	}
	return out
}

// unseenCell is what was not read of a cell.
type unseenCell struct {
	*FleetCell
	core     bool     // nor what is no shard's
	shards   []string // that were not read
	reserved int      // by what was not read
}

// fleetCells are the fleet's cells when at least one of them was read: people audit stacks that are not of the
// fleet whose file lies in their directory.
func (g *graph) fleetCells(f *Fleet) []FleetCell {
	if f == nil {
		return nil
	}
	for _, p := range g.places {
		if p.Service != "" && p.Service != f.Service {
			continue
		}
		for i := range f.Cells {
			if c := f.Cells[i].Name; p.Cell == c || p.Service == "" && p.Cell == f.Service+"-"+c {
				return f.Cells
			}
		}
	}
	return nil
}

// findUnseen finds what the fleet has and the input lacks.
func (g *graph) findUnseen(f *Fleet) []unseenCell {
	cells := g.fleetCells(f)
	if len(cells) == 0 {
		return nil
	}
	seen := map[place]bool{} // with ID "" for a cell's core
	add := func(p place) {
		if p.Service == "" {
			p.Service, p.Cell = f.Service, strings.TrimPrefix(p.Cell, f.Service+"-")
		}
		seen[p] = true
	}
	for _, p := range g.places {
		add(p)
	}
	for _, s := range g.shards {
		add(s)
	}
	var out []unseenCell
	for i := range cells {
		c := &cells[i]
		u := unseenCell{FleetCell: c, core: !seen[place{Service: f.Service, Cell: c.Name}]}
		for _, id := range c.Shards {
			if !seen[place{f.Service, c.Name, id}] {
				u.shards = append(u.shards, id)
			}
		}
		if !u.core && len(u.shards) == 0 {
			continue
		}
		u.reserved = len(u.shards) * c.ShardReserved
		if u.core {
			u.reserved += c.Reserved - len(c.Shards)*c.ShardReserved
		}
		out = append(out, u)
	}
	return out
}

// unseenFindings name what the fleet has and the input lacks.
func (g *graph) unseenFindings() []finding {
	var out []finding
	for i := range g.unseen {
		u := &g.unseen[i]
		what := "cell " + u.Name
		switch {
		case len(u.shards) < len(u.Shards):
			what = fmt.Sprintf("%s of cell %s", countNames(u.shards), u.Name)
			if u.core {
				what = strings.Replace(what, " of cell", " and the core of cell", 1)
			}
			if len(u.shards) == 0 {
				what = "the core of cell " + u.Name
			}
		case !u.core:
			what = fmt.Sprintf("all %d shards of cell %s", len(u.Shards), u.Name)
		}
		f := finding{rule: &ruleUnseen, level: Review, node: -1,
			message: fmt.Sprintf("the fleet has %s in account %s, %s, and no stack of it was read: what it shares was not judged", what, u.Account, u.Region)}
		if u.reserved > 0 {
			f.message += fmt.Sprintf("; the %d of concurrency that it reserves count from the fleet file", u.reserved)
		}
		out = append(out, f)
	}
	return out
}

// countNames is "3 shards (s01, s02, s03)", with the first few names.
func countNames(ids []string) string {
	const few = 8
	shown := ids
	more := ""
	if len(ids) > few {
		shown, more = ids[:few], ", …"
	}
	return fmt.Sprintf("%s (%s%s)", plural(len(ids), "shard"), strings.Join(shown, ", "), more)
}

// unseenPools are what unread cells reserve, by account and region.
func (g *graph) unseenPools() map[env][]CellPool {
	out := map[env][]CellPool{}
	for i := range g.unseen {
		if u := &g.unseen[i]; u.reserved > 0 {
			e := env{u.Account, u.Region}
			out[e] = append(out[e], CellPool{u.Name, u.reserved})
		}
	}
	for _, cells := range out {
		slices.SortFunc(cells, func(a, b CellPool) int { return cmp.Compare(a.Cell, b.Cell) })
	}
	return out
}
