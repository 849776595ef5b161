package journal

import (
	"context"
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Latest implements run.Journal.
func (s *Store) Latest(ctx context.Context, service string) (run.Record, error) {
	fail := func(err error) (run.Record, error) {
		return run.Record{}, fmt.Errorf("the latest rollout of service %q: %w", service, err)
	}
	l, _, err := s.latest(ctx, service)
	switch {
	case err != nil:
		return fail(err)
	case l.Latest == "":
		return fail(run.ErrNone)
	}
	r, err := s.last(ctx, service, l.Latest)
	if err != nil {
		return fail(err)
	}
	if r.Seq == 0 {
		return fail(damaged(leaseKey(service), "rollout %q is not there", l.Latest))
	}
	return r, nil
}

// Last implements run.Journal.
func (s *Store) Last(ctx context.Context, service, id string) (run.Record, error) {
	if checkNames(service, id) != nil { // nobody could have begun it
		return run.Record{}, fmt.Errorf("rollout %.200q of service %.200q: %w", id, service, run.ErrNone)
	}
	r, err := s.last(ctx, service, id)
	if err == nil && r.Seq == 0 {
		err = run.ErrNone
	}
	if err != nil {
		return run.Record{}, fmt.Errorf("rollout %q of service %q: %w", id, service, err)
	}
	return r, nil
}

// last is the last record of a rollout, and the zero Record when there is none.
func (s *Store) last(ctx context.Context, service, id string) (run.Record, error) {
	records, err := s.read(ctx, stateKey(service, id))
	if err != nil || records[0].Version == 0 {
		return run.Record{}, err
	}
	seq, state, err := unpack(records[0], service, id)
	if err != nil {
		return run.Record{}, err
	}
	if records, err = s.read(ctx, eventKey(service, id, seq)); err != nil { // it does not change
		return run.Record{}, err
	}
	event, err := eventOf(records[0], seq)
	if err != nil {
		return run.Record{}, err
	}
	return run.Record{Seq: seq, Event: event, State: state}, nil
}

// Rollouts implements run.Histories.
func (s *Store) Rollouts(ctx context.Context, service string, limit int) ([]rollout.State, error) {
	fail := func(err error) ([]rollout.State, error) {
		return nil, fmt.Errorf("the rollouts of service %q: %w", service, err)
	}
	if err := checkLimit(limit); err != nil {
		return fail(err)
	}
	known, held, err := s.latest(ctx, service) // first: the list has these at least
	if err != nil {
		return fail(err)
	}
	lines, err := s.list(ctx, directory.Range{Family: famRollout, Part: servicePart(service)}, directory.Key{}, limit)
	if err != nil {
		return fail(err)
	}
	states := make([]rollout.State, 0, len(lines))
	next := uint64(0) // number of the next line
	for some := range slices.Chunk(lines, 20) {
		ids, keys := make([]string, len(some)), make([]directory.Key, len(some))
		for i, r := range some {
			var l line
			if err := decode(r, &l); err != nil {
				return fail(err)
			}
			if len(states) == 0 && i == 0 {
				next = max(l.Number, known.Count)
			}
			if l.Schema != schema || r.Version != 1 || r.Key != lineKey(service, l.Number) || l.Number != next || l.Number == 0 {
				return fail(damaged(r.Key, "rollout number %d is missing, or this is another", next))
			}
			next--
			ids[i], keys[i] = l.ID, stateKey(service, l.ID)
		}
		records, err := s.read(ctx, keys...)
		if err != nil {
			return fail(err)
		}
		for i, r := range records {
			if r.Version == 0 {
				return fail(damaged(r.Key, "it is missing"))
			}
			_, state, err := unpack(r, service, ids[i])
			if err != nil {
				return fail(err)
			}
			states = append(states, state)
		}
	}
	if len(lines) < limit && (next > 0 || len(lines) == 0 && known.Count > 0) {
		return fail(damaged(held.Key, "it counts %d rollouts, and the list has %d", known.Count, len(lines)))
	}
	return states, nil
}

// Events implements run.Histories. ErrNone when there is no such rollout.
func (s *Store) Events(ctx context.Context, service, id string, after uint64, limit int) ([]run.Record, error) {
	fail := func(err error) ([]run.Record, error) {
		return nil, fmt.Errorf("what happened in rollout %.200q of service %.200q: %w", id, service, err)
	}
	if checkNames(service, id) != nil {
		return fail(run.ErrNone)
	}
	if err := checkLimit(limit); err != nil {
		return fail(err)
	}
	found, err := s.list(ctx, directory.Range{Family: famEvent, Part: rolloutPart(service, id)}, eventKey(service, id, after), limit)
	if err != nil {
		return fail(err)
	}
	records := make([]run.Record, len(found))
	for i, r := range found {
		seq := after + uint64(i) + 1
		if r.Key != eventKey(service, id, seq) {
			return fail(damaged(eventKey(service, id, seq), "it is missing"))
		}
		event, err := eventOf(r, seq)
		if err != nil {
			return fail(err)
		}
		records[i] = run.Record{Seq: seq, Event: event}
	}
	if len(found) == 0 {
		states, err := s.read(ctx, stateKey(service, id))
		switch {
		case err != nil:
			return fail(err)
		case states[0].Version == 0:
			return fail(run.ErrNone)
		}
	}
	return records, nil
}

// list lists records of one part, and comes again while the home is busy.
func (s *Store) list(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	for t := (tries{unknown: unsure}); ; {
		records, err := s.home.List(ctx, r, after, limit)
		if err == nil {
			return records, nil
		}
		if err := t.again(ctx, err); err != nil {
			return nil, err
		}
	}
}

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("%w: limit %d: want at least 1", rollout.ErrInvalid, limit)
	}
	return nil
}
