package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// By is who pins in the directory's history.
const By = "quarantine"

// run is one call of Run.
type run struct {
	*Quarantine
	events []Event
	errs   []error
}

func (r *run) fail(err error) { r.errs = append(r.errs, err) }

// pin decides on a suspect, notes what it is about to do, and does it.
func (r *run) pin(ctx context.Context, x suspect) {
	p, left, err := r.choose(ctx, x)
	if err != nil {
		r.fail(fmt.Errorf("tenant %q: %w", x.Tenant, err))
		return
	}
	if left != "" {
		r.leave(ctx, x.Tenant, left)
		return
	}
	ours := false
	_, err = r.edit(ctx, func(s *state, now time.Time) {
		ours = false
		i, known := s.find(x.Tenant)
		if !known || !s.Suspects[i].Firm || s.live(x.Tenant) >= 0 { // another keeper decided meanwhile
			return
		}
		if left = s.spent(now); left != "" {
			return
		}
		p.At, ours = now, true
		s.Pins = append(s.Pins, p)
	})
	switch {
	case err != nil:
		r.fail(err)
	case left != "":
		r.leave(ctx, x.Tenant, left)
	case ours:
		r.follow(ctx, p)
	}
}

// leave keeps why a suspect is not pinned, and tells it once.
func (r *run) leave(ctx context.Context, tenant, why string) {
	anew := false
	_, err := r.edit(ctx, func(s *state, _ time.Time) {
		i, known := s.find(tenant)
		if anew = known && s.Suspects[i].Left != short(why); anew {
			s.Suspects[i].Left = short(why)
		}
	})
	if err != nil {
		r.fail(err)
	} else if anew {
		r.events = append(r.events, Event{What: LeftAlone, Tenant: tenant, Why: why})
	}
}

func short(why string) string {
	if len(why) <= maxReason {
		return why
	}
	return strings.ToValidUTF8(why[:maxReason], "")
}

// follow makes the change of an intent, or finds it made, and looks whether one that was made stands.
func (r *run) follow(ctx context.Context, p pin) {
	if p.Gone {
		return
	}
	if p.Done {
		e, err := r.c.Residence.Get(ctx, p.Tenant)
		switch {
		case err != nil && !errors.Is(err, directory.ErrNotFound):
			r.fail(err)
		case err != nil || e.Cell != r.c.Cell || !slices.Equal(e.Pins, p.Shards):
			r.mark(ctx, p, func(p *pin) { p.Gone = true }, Event{What: Released, Tenant: p.Tenant, Shards: p.Shards, Why: "its entry in the directory was changed"})
		}
		return
	}
	change := directory.Change{Operation: p.Operation, By: By, Why: p.Why, At: p.At}
	_, err := r.c.Residence.Pin(ctx, p.Tenant, p.Shards, p.Epoch, change)
	switch {
	case err == nil:
		r.mark(ctx, p, func(p *pin) { p.Done = true }, Event{What: Pinned, Tenant: p.Tenant, Shards: p.Shards, Why: p.Why})
	case refused(err) != nil:
		r.abandon(ctx, p, refused(err))
	default:
		r.fail(err) // the next run repeats it
	}
}

// abandon gives an intent up that the directory refuses, and whatever an interrupted attempt had held for it.
func (r *run) abandon(ctx context.Context, p pin, why error) {
	err := r.c.Residence.LetGo(ctx, p.Tenant, r.c.Cell, p.Shards, p.Epoch)
	if err != nil && !errors.Is(err, directory.ErrStale) && !errors.Is(err, directory.ErrNotFound) {
		r.fail(err)
		return
	}
	if _, err := r.edit(ctx, func(s *state, _ time.Time) {
		s.Pins = slices.DeleteFunc(s.Pins, func(q pin) bool { return q.Operation == p.Operation && !q.Done })
	}); err != nil {
		r.fail(err)
		return
	}
	r.leave(ctx, p.Tenant, "the directory refused its pins: "+why.Error())
}

// mark changes a pin of the note, and tells of it when that changed anything.
func (r *run) mark(ctx context.Context, p pin, change func(*pin), e Event) {
	anew := false
	_, err := r.edit(ctx, func(s *state, _ time.Time) {
		anew = false
		for i := range s.Pins {
			was := s.Pins[i]
			if was.Operation != p.Operation || was.Gone {
				continue
			}
			change(&s.Pins[i])
			anew = was.Done != s.Pins[i].Done || was.Gone != s.Pins[i].Gone
		}
		if i, known := s.find(p.Tenant); known {
			// What was known of it is spent: after an unpin new verdicts are needed.
			s.Suspects[i].Firm, s.Suspects[i].Said = false, nil
		}
	})
	if err != nil {
		r.fail(err)
	} else if anew {
		r.events = append(r.events, e)
	}
}

// refused is why the directory will not make a change, however often it is asked, without the tenant's id; nil when
// it may.
func refused(err error) error {
	for _, is := range []error{directory.ErrStale, directory.ErrState, directory.ErrInvalid, directory.ErrNotFound, directory.ErrReused,
		directory.ErrRetired, directory.ErrUnknownTopology, directory.ErrUnknownCell} {
		if errors.Is(err, is) {
			return is
		}
	}
	return nil
}

// choose is what would be done with a suspect, or why it is left alone.
func (q *Quarantine) choose(ctx context.Context, x suspect) (p pin, left string, err error) {
	no := func(format string, args ...any) (pin, string, error) { return pin{}, fmt.Sprintf(format, args...), nil }
	e, err := q.c.Residence.Get(ctx, x.Tenant)
	switch {
	case errors.Is(err, directory.ErrNotFound) || err == nil && e.Cell != q.c.Cell:
		return no("the cell no longer has it")
	case err != nil:
		return pin{}, "", err
	case len(e.Pins) > 0:
		return no("it is pinned already, to %s: pin it elsewhere by tenant pin", strings.Join(e.Pins, " "))
	case e.State != directory.Active:
		return no("it is %s", e.State)
	case e.Topology == 0:
		return no("no topology places it")
	case q.c.Stateful:
		return no("its state lies on its shards (shard.state.mode home), so that it needs a move")
	}
	t, err := q.c.Residence.Topology(ctx, q.c.Cell, e.Topology)
	if err != nil {
		return pin{}, "", err
	}
	cell, err := q.c.Residence.Cell(ctx, q.c.Cell)
	if err != nil {
		return pin{}, "", err
	}
	subset, err := q.c.Residence.Subset(ctx, e)
	if err != nil {
		return pin{}, "", err
	}
	shards := q.emptiest(cell, t, len(subset))
	if len(shards) == 0 {
		return no("topology %d, which places it, has no shard of the quarantine: publish one that has, and migrate", t.Version)
	}
	if room := room(cell, t); room > 0 {
		load := (e.Load + directory.Rate(len(shards)) - 1) / directory.Rate(len(shards))
		for _, s := range shards {
			if cell.Pinned[s]+load > room {
				return no("it is larger than the quarantine: shard %s would have %v of at most %v requests a second", s, cell.Pinned[s]+load, room)
			}
		}
	}
	return pin{
		Tenant: e.Tenant, Epoch: e.Epoch, Shards: shards, Operation: By + " " + hashed(q.c.Cell, e.Tenant, fmt.Sprint(e.Epoch)),
		Why: "its requests take down " + strings.Join(x.Shards, " "),
	}, "", nil
}

// emptiest are up to k shards of the quarantine that the topology has, those with the least reserved first.
func (q *Quarantine) emptiest(cell directory.Cell, t directory.Topology, k int) []string {
	shards := slices.DeleteFunc(slices.Clone(q.c.Shards), func(id string) bool {
		return !slices.ContainsFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
	})
	slices.SortStableFunc(shards, func(a, b string) int { return cmp.Compare(cell.Pinned[a], cell.Pinned[b]) })
	return shards[:min(len(shards), k, directory.MaxPins)]
}

// room is what pins may reserve of a shard: what a load test measured for one, or an even share of the cell's
// capacity, less the headroom; 0 when neither was ever measured, and so nothing is refused.
func room(c directory.Cell, t directory.Topology) directory.Rate {
	capacity := c.ShardCapacity
	if capacity == 0 && len(t.Shards) > 0 {
		capacity = c.Capacity / directory.Rate(len(t.Shards))
	}
	return capacity * directory.Rate(100-c.Headroom) / 100
}
