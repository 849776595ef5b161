package localcell

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/snapshot"
)

// Layout is what a supervisor runs: cells with one directory and one issuer, and whether a front door
// stands before them.
type Layout struct {
	Cells     []Plan `json:"cells"`               // at least one
	FrontDoor bool   `json:"frontDoor,omitempty"` // then processes are named CELL/PROCESS

	// KeyFiles name the file of each cell's placement key, those of cells that do not run now among them.
	KeyFiles map[string]string `json:"keyFiles,omitempty"`
}

// Alone is the layout of one cell whose router is where tenants send their requests.
func (p Plan) Alone() Layout { return Layout{Cells: []Plan{p}} }

// NewLayout takes the first n cells of the fleet that are not for internal tenants only, and puts a front
// door before them.
func NewLayout(f *fleet.Fleet, n int, worker string) (Layout, error) {
	l := Layout{FrontDoor: true}
	fit := 0
	for _, c := range f.Cells {
		if c.Tenants == "internal" {
			continue
		}
		if fit++; fit > n {
			continue
		}
		p, err := NewPlan(f, c.Name, worker)
		if err != nil {
			return Layout{}, err
		}
		l.Cells = append(l.Cells, p)
	}
	if n < 1 || fit < n {
		return Layout{}, fmt.Errorf("%d cells: want 1 to %d, as many as the fleet has that are not for internal tenants only", n, fit)
	}
	return l, nil
}

// Names are those of the cells, in their order.
func (l Layout) Names() []string {
	var all []string
	for _, p := range l.Cells {
		all = append(all, p.Cell)
	}
	return all
}

// Shards is the number of shards of all cells.
func (l Layout) Shards() (n int) {
	for _, p := range l.Cells {
		n += len(p.Topology.Shards)
	}
	return n
}

// process is the name of a cell's process.
func (l Layout) process(cell, name string) string {
	if l.FrontDoor {
		return cell + "/" + name
	}
	return name
}

// settings is the name of a cell's file of its own.
func (l Layout) settings(cell, file string) string {
	if l.FrontDoor {
		return cell + "." + file
	}
	return file
}

// readLayout is what the last start in d was to run. A version that knew one cell only wrote its plan.
func (d Dir) readLayout() (Layout, error) {
	var raw json.RawMessage
	if err := d.readJSON(filePlan, &raw); err != nil {
		return Layout{}, err
	}
	var l Layout
	if err := json.Unmarshal(raw, &l); err != nil {
		return Layout{}, fmt.Errorf("%w: %s: %w", ErrDamaged, d.file(filePlan), err)
	}
	if len(l.Cells) > 0 {
		return l, nil
	}
	var p Plan
	if err := json.Unmarshal(raw, &p); err != nil || p.Cell == "" {
		return Layout{}, fmt.Errorf("%w: %s names no cell: %v", ErrDamaged, d.file(filePlan), err)
	}
	l = p.Alone()
	l.KeyFiles = map[string]string{p.Cell: filePlacementKey}
	return l, nil
}

// withKeys names the file of each cell's placement key: the one that it had before, as on says; for the
// first cell of a state directory the one that a single cell has.
func (l Layout) withKeys(on Layout) Layout {
	l.KeyFiles = maps.Clone(on.KeyFiles)
	if l.KeyFiles == nil {
		l.KeyFiles = map[string]string{}
	}
	for _, p := range l.Cells {
		switch {
		case l.KeyFiles[p.Cell] != "":
		case len(l.KeyFiles) == 0:
			l.KeyFiles[p.Cell] = filePlacementKey
		default:
			l.KeyFiles[p.Cell] = filePlacementKey + "." + p.Cell
		}
	}
	return l
}

// cellName keeps what a changed file names from leading out of the state directory.
var cellName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// processes are the names of all processes of the layout, but for those that come and go.
func (l Layout) processes() []string {
	all := []string{nameSupervisor, nameGuard, nameDirectory, nameStore, nameIssuer}
	if l.FrontDoor {
		all = append(all, nameFrontDoor, nameFrontKeeper)
	}
	for _, p := range l.Cells {
		if !cellName.MatchString(p.Cell) {
			continue
		}
		for _, name := range append([]string{nameRouter, nameKeeper}, p.Shards()...) {
			if shardID.MatchString(name) {
				all = append(all, l.process(p.Cell, name), l.process(p.Cell, name)+gateSuffix)
			}
		}
	}
	return all
}

// files are the names of the files that cells keep which ever ran in the state directory, alone or beside
// others, and the front door of these.
func (l Layout) files() []string {
	all := slices.Clone(cellFiles)
	for _, name := range []string{fileSnapshot, fileSnapshotKeys, fileSnapshot + ".lock"} {
		all = append(all, snapshot.Fleet+"."+name)
	}
	for _, cell := range slices.Sorted(maps.Keys(l.KeyFiles)) {
		if !cellName.MatchString(cell) {
			continue
		}
		all = append(all, filePlacementKey+"."+cell)
		for _, name := range cellFiles {
			all = append(all, cell+"."+name)
		}
	}
	return all
}

// isLog says whether a name is that of the log of a process of a cell which ever ran in the state directory
// beside others.
func (l Layout) isLog(name string) bool {
	cell, process, ok := strings.Cut(strings.TrimSuffix(name, ".log"), ".")
	_, known := l.KeyFiles[cell]
	known = known || cell == snapshot.Fleet
	return ok && known && strings.HasSuffix(name, ".log") && shardID.MatchString(strings.TrimSuffix(process, gateSuffix))
}

// Layout is what runs in d, or ran there last.
func (d Dir) Layout() (Layout, error) { return d.readLayout() }
