package fleet

import "cmp"

// Positions say where the values of a fleet stand in its file, for faults that only show later: when the fleet is
// stamped. The zero value knows no file.
type Positions struct {
	file string
	at   map[string]pos
}

// Fault is what is wrong with the value at path, such as cells[1].shards[0].id, where that stands in the file, or
// where the nearest value around it does: a shard that comes from a count stands at the count.
func (p Positions) Fault(path, what, why, fix string) Fault {
	f := Fault{File: p.file, Path: path, What: what, Why: why, Fix: fix}
	if p.file != "" {
		at := nearestPos(p.at, path)
		f.Line, f.Col = at.line, at.col
	}
	return f
}

// nearestPos is the place of the value at path, or of the nearest one around it.
func nearestPos(at map[string]pos, path string) pos {
	for {
		if here, ok := at[path]; ok || path == "" {
			return cmp.Or(here, pos{1, 1})
		}
		path = parent(path)
	}
}
