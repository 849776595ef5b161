package show

import (
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/rollout"
)

// maxTile is how many columns a cell's name gets at most.
const maxTile = 34

// grid draws the cells by wave: marks with names, marks alone where there is no room for names, and numbers where
// there is none for marks.
func (v View) grid(l Look, room int) []string {
	waves := make([][]rollout.Cell, len(v.State.Spec.Waves))
	name := 0
	for _, c := range v.State.Cells {
		waves[c.Wave] = append(waves[c.Wave], c)
		name = max(name, columns(clean(c.Name)))
	}
	label := len("wave ") + len(fmt.Sprint(len(waves))) + 2
	name = min(name, maxTile, l.Width-label-2)
	for _, tile := range []int{name, 0} {
		if lines := v.tiles(l, waves, label, tile); len(lines) <= room {
			return lines
		}
	}
	return v.numbers(l, waves, room)
}

// tiles has a mark for each cell, with name columns for its name.
func (v View) tiles(l Look, waves [][]rollout.Cell, label, name int) []string {
	size, gap := 1, 0
	if name > 0 {
		size, gap = 2+name, 2
	}
	each := max(1, (l.Width-label+gap)/(size+gap))
	var out []string
	for i, cells := range waves {
		lead := pad(fmt.Sprintf("wave %d", i+1), label)
		for row := range slices.Chunk(cells, each) {
			line := lead
			for j, c := range row {
				k := kindOf[c.Step]
				if j > 0 {
					line += strings.Repeat(" ", gap)
				}
				tile := l.mark(k)
				if name > 0 {
					tile += " " + cut(clean(c.Name), name)
				}
				line += l.paint(kinds[k].colour, tile)
				if j < len(row)-1 {
					line += strings.Repeat(" ", max(0, size-columns(tile)))
				}
			}
			out = append(out, line)
			lead = strings.Repeat(" ", label)
		}
	}
	return out
}

// numbers counts the cells of each wave by kind. Waves that stand next to each other and look alike are one line, and
// what is left when there is no room is the last.
func (v View) numbers(l Look, waves [][]rollout.Cell, room int) []string {
	type span struct {
		from, to int
		cells    []rollout.Cell
	}
	single := func(cells []rollout.Cell) int {
		k := kindOf[cells[0].Step]
		for _, c := range cells {
			if kindOf[c.Step] != k {
				return -1
			}
		}
		return k
	}
	var spans []span
	for i, cells := range waves {
		if n := len(spans); n > 0 && single(cells) >= 0 && single(cells) == single(spans[n-1].cells) {
			spans[n-1].to = i + 1
			spans[n-1].cells = append(spans[n-1].cells, cells...)
			continue
		}
		spans = append(spans, span{i + 1, i + 1, slices.Clone(cells)})
	}
	for len(spans) > max(1, room) {
		n := len(spans)
		spans[n-2].to = spans[n-1].to
		spans[n-2].cells = append(spans[n-2].cells, spans[n-1].cells...)
		spans = spans[:n-1]
	}
	var out []string
	for _, s := range spans {
		lead := fmt.Sprintf("wave %d: ", s.from)
		if s.to > s.from {
			lead = fmt.Sprintf("waves %d-%d: ", s.from, s.to)
		}
		var parts []string
		for k, n := range tally(s.cells) {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%s%d", l.mark(k), n))
			}
		}
		out = append(out, cut(lead+strings.Join(parts, " "), l.Width))
	}
	return out
}
