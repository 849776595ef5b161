package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/placement"
)

// draft is the flags that say which topology to publish, or to compare with.
type draft struct {
	file           string
	keyVersion     string
	drain, without []string
	replace        []string // OLD=NEW
}

func (p *draft) register(cmd *cobra.Command) {
	wordVar(cmd.Flags(), &p.file, "file", "", "take the topology from this JSON file, as topology show --json prints one, instead of the fleet")
	wordVar(cmd.Flags(), &p.keyVersion, "key-version", "", "version of the cell's placement key to place by (default: that of the newest topology, or the first of the cell's generation)")
	wordsVar(cmd.Flags(), &p.drain, "drain", "shards that the topology names but places nobody on")
	wordsVar(cmd.Flags(), &p.without, "without", "shards of the fleet's cell that the topology does not name")
	wordsVar(cmd.Flags(), &p.replace, "replace", "OLD=NEW: shard NEW takes the position of OLD, whose tenants come to it while nobody else moves; OLD is drained")
}

// next is the topology that comes after the cell's, by the fleet or the file.
func (p *draft) next(f *fleet.Fleet, c fleet.Cell, newest uint64, previous *directory.Topology) (directory.Topology, error) {
	t := described(f, c)
	if previous != nil {
		// The key of another generation is not in this one's secret, unless somebody put it there.
		if generation, _, ok := names.ParseKeyVersion(previous.KeyVersion); !ok || generation == c.Generation {
			t.KeyVersion = previous.KeyVersion
		}
		keepPositions(t.Shards, previous.Shards)
	}
	if p.file != "" {
		var err error
		if t, err = readTopology(p.file); err != nil {
			return t, usagef("--file: %w", err)
		}
		if t.Cell != "" && t.Cell != c.Name {
			return t, usagef("--file %s has a topology of cell %q, not %q", p.file, t.Cell, c.Name)
		}
		t.Cell = c.Name
	}
	if p.keyVersion != "" {
		t.KeyVersion = p.keyVersion
	}
	t.Version, t.KeyCheck = newest+1, ""
	if previous != nil && previous.KeyVersion == t.KeyVersion {
		t.KeyCheck = previous.KeyCheck
	}
	for _, id := range p.drain {
		if slices.Contains(p.without, id) {
			return t, usagef("--drain %s --without %s: it cannot be both; a drained shard stays in the topology", id, id)
		}
		i := slices.IndexFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
		if i < 0 {
			return t, usagef("--drain %s: cell %q has no such shard", id, c.Name)
		}
		t.Shards[i].State = directory.Drained
	}
	for _, id := range p.without {
		before := len(t.Shards)
		t.Shards = slices.DeleteFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
		if len(t.Shards) == before {
			return t, usagef("--without %s: cell %q has no such shard", id, c.Name)
		}
	}
	for _, pair := range p.replace {
		if err := replaceShard(t, pair); err != nil {
			return t, err
		}
	}
	if p.file == "" || t.Slots == 0 {
		t = slotted(t)
	}
	return t, physical(f, c, t)
}

// described is the first topology of a cell as the fleet describes it.
func described(f *fleet.Fleet, c fleet.Cell) directory.Topology {
	t := directory.Topology{
		Cell: c.Name, Version: 1, Scheme: placement.Scheme(f.Placement.Scheme), KeyVersion: f.NamesOf(c).KeyVersion(1),
		KBySize: map[string]int{"": f.Placement.PerTenant}, MaxShared: f.Placement.MaxShared,
	}
	for size, s := range f.Placement.Sizes {
		t.KBySize[size] = s.PerTenant
	}
	for _, s := range c.Shards {
		state := directory.InUse
		if slices.Contains(c.Quarantine, s.ID) {
			state = directory.Drained // nobody is placed where poisonous tenants come
		}
		t.Shards = append(t.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: state})
	}
	return slotted(t)
}

// withoutQuarantine is the cell without the shards of its quarantine, on which nobody is placed.
func withoutQuarantine(c fleet.Cell) fleet.Cell {
	c.Shards = slices.DeleteFunc(slices.Clone(c.Shards), func(s fleet.ShardSpec) bool { return slices.Contains(c.Quarantine, s.ID) })
	c.Quarantine = nil
	return c
}

// slotted is the topology with the slots that its shards make. What is wrong with it otherwise, its check says.
func slotted(t directory.Topology) directory.Topology {
	if filled, err := t.WithSlots(); err == nil {
		return filled
	}
	t.Slots = 0
	return t
}

// keepPositions gives shards the positions that they had. One whose position another shard has taken stays
// drained.
func keepPositions(shards, had []directory.Shard) {
	for _, h := range had {
		if h.Position == "" {
			continue
		}
		if i := slices.IndexFunc(shards, func(s directory.Shard) bool { return s.ID == h.ID }); i >= 0 {
			shards[i].Position = h.Position
			if old := slices.IndexFunc(shards, func(s directory.Shard) bool { return s.ID == h.Position }); old >= 0 {
				shards[old].State = directory.Drained
			}
		}
	}
}

// replaceShard has one shard of the topology take the position of another, which it drains.
func replaceShard(t directory.Topology, pair string) error {
	from, to, ok := strings.Cut(pair, "=")
	at := func(id string) int {
		return slices.IndexFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
	}
	i, j := at(from), at(to)
	switch {
	case !ok || from == "" || to == "" || from == to:
		return usagef("--replace %q: write OLD=NEW, two shards of the cell", pair)
	case i < 0 || j < 0:
		return usagef("--replace %s: cell %q has only one of the shards, or neither", pair, t.Cell)
	case t.Shards[i].Zone != t.Shards[j].Zone:
		return usagef("--replace %s: shard %q lies in zone %q and %q in %q: tenants whose subsets are spread over zones would lose that; take a shard of the same zone", pair, from, t.Shards[i].Zone, to, t.Shards[j].Zone)
	case t.Shards[i].Weight != t.Shards[j].Weight:
		return usagef("--replace %s: the shards have the weights %d and %d, with which others would move, too; give them the same", pair, t.Shards[i].Weight, t.Shards[j].Weight)
	}
	t.Shards[j].Position = cmp.Or(t.Shards[i].Position, from)
	t.Shards[i].State, t.Shards[i].Position = directory.Drained, ""
	return nil
}

// errRemap says that a change of topology moves nearly everybody.
func errRemap(from, to directory.Topology) error {
	return hint(foundf("topology %d of cell %q draws the subsets of all tenants anew, other than topology %d: nearly all of the %s on that would move", to.Version, to.Cell, from.Version, count(int(from.Tenants), "tenant")),
		"--accept-remap, if that is meant; rendezvous/v1 moves only what it must when shards come and go")
}

// readTopology reads one topology as topology show --json prints it, and nothing else.
func readTopology(file string) (directory.Topology, error) {
	text, err := readSmall(file)
	if err != nil {
		return directory.Topology{}, err
	}
	var read shownTopology
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a slip is not to be a default
	if err := d.Decode(&read); err != nil {
		return directory.Topology{}, fmt.Errorf("%s: %w", file, plainJSON(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return directory.Topology{}, fmt.Errorf("%s: something follows the topology; want one alone", file)
	}
	return read.Topology, nil
}

// physical refuses a topology that names a shard which the fleet does not have, or two shards that are one.
func physical(f *fleet.Fleet, c fleet.Cell, t directory.Topology) error {
	if err := t.Check(c.Zones); err != nil {
		return usagef("%w", err)
	}
	bearer := map[names.Named]string{}
	for _, s := range t.Shards {
		at := slices.IndexFunc(c.Shards, func(spec fleet.ShardSpec) bool { return spec.ID == s.ID })
		if at < 0 {
			return usagef("topology %d of cell %q names shard %q, which the fleet does not have: stamp it first", t.Version, c.Name, s.ID)
		}
		if zone := c.Shards[at].Zone; s.Zone != zone {
			return usagef("topology %d of cell %q has shard %q in zone %q, and the fleet has it in %q: tenants would not be spread over zones as it seems; write %q", t.Version, c.Name, s.ID, s.Zone, zone, zone)
		}
		for _, name := range f.NamesOf(c).Shard(s.ID).All(c.Account, c.Region) {
			if other, taken := bearer[name]; taken {
				return usagef("shards %q and %q of topology %d are one: both have the %s %s", other, s.ID, t.Version, name.Space, name.Name)
			}
			bearer[name] = s.ID
		}
	}
	return nil
}
