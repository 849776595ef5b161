package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// transition is a record on its way into the journal.
type transition struct {
	lease        run.Lease
	id           string
	seq          uint64
	state, event []byte // bodies
	operation    string // of this lease and this content alone
}

// Append implements run.Journal: one conditional batch. The same record under the same lease is recognised, whoever
// brings it again and however far the journal has gone on. Only the service's latest rollout goes on: ErrStale for another.
func (s *Store) Append(ctx context.Context, l run.Lease, r run.Record) error {
	t, err := prepare(l, r)
	if err == nil {
		err = s.append(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("journal transition %d of rollout %.200q of service %.200q: %w", r.Seq, r.State.Spec.ID, l.Service, err)
	}
	return nil
}

// prepare checks a record, and makes its bodies.
func prepare(l run.Lease, r run.Record) (transition, error) {
	t := transition{lease: l, id: r.State.Spec.ID, seq: r.Seq}
	if err := checkNames(l.Service, t.id); err != nil {
		return t, err
	}
	switch {
	case r.State.Spec.Service != l.Service:
		return t, fmt.Errorf("%w: it is of service %q, and the lease is not", rollout.ErrInvalid, r.State.Spec.Service)
	case r.Seq == 0 || (r.Seq == 1) != (r.Event == nil):
		return t, fmt.Errorf("%w: transitions are numbered from 1, and all but the first have an event", rollout.ErrInvalid)
	}
	var text []byte
	var err error
	if text, t.state, err = pack(r.Seq, r.State); err != nil {
		return t, err
	}
	if t.event, err = encode(happened{schema, r.Seq, r.Event}); err != nil {
		return t, err
	}
	if len(t.event) > maxEvent {
		return t, fmt.Errorf("%w: the event has %d bytes; at most %d: shorten its reason, error or lists", directory.ErrTooLarge, len(t.event), maxEvent)
	}
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(l.Service), []byte(t.id), binary.BigEndian.AppendUint64(nil, l.Fencing), t.event, text} {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write(part)
	}
	t.operation = "rollout transition " + hex.EncodeToString(sum.Sum(nil)[:16])
	return t, nil
}

func (s *Store) append(ctx context.Context, t transition) error {
	for tried := (tries{}); ; {
		b, err := s.batch(ctx, t)
		switch final := (*refusal)(nil); {
		case errors.As(err, &final):
			return final.error
		case err == nil && b.Ops == nil:
			return nil
		case err == nil:
			err = s.write(ctx, &tried, b)
		}
		if err == nil {
			return nil
		}
		if err := tried.again(ctx, err); err != nil {
			return err
		}
	}
}

// refusal is what the records that stand say to a transition; another try is of no use.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// batch is what writes the transition if all stays as it is; one without operations when it is written already. What was
// tried before and may still be on its way needs the same versions, so that it can be written only if this is not.
func (s *Store) batch(ctx context.Context, t transition) (directory.Batch, error) {
	service := t.lease.Service
	none := func(err error) (directory.Batch, error) { return directory.Batch{}, &refusal{err} }
	records, err := s.home.Read(ctx, directory.Strong, leaseKey(service), stateKey(service, t.id), eventKey(service, t.id, t.seq))
	if err != nil {
		return directory.Batch{}, err
	}
	held, state, event := records[0], records[1], records[2]
	if event.Version > 0 && event.Operation == t.operation {
		return directory.Batch{}, nil
	}
	l, err := leaseOf(held, service)
	switch {
	case err != nil:
		return none(err)
	case !l.is(t.lease):
		return none(lost(l))
	case state.Version != t.seq-1:
		return none(fmt.Errorf("%w: it has %d transitions already", run.ErrStale, state.Version))
	case event.Version > 0:
		return none(damaged(event.Key, "it is there before its time"))
	case t.seq > 1 && l.Latest != t.id:
		return none(fmt.Errorf("%w: rollout %q came after it", run.ErrStale, l.Latest))
	}
	ops := []directory.Op{
		directory.Put(stateKey(service, t.id), t.seq-1, t.state),
		directory.Put(eventKey(service, t.id, t.seq), 0, t.event),
	}
	if t.seq > 1 {
		return directory.Batch{Operation: t.operation, Ops: append(ops, directory.Require(leaseKey(service), held.Version))}, nil
	}
	if l.Latest != "" {
		before, err := s.home.Read(ctx, directory.Strong, stateKey(service, l.Latest))
		if err != nil {
			return directory.Batch{}, err
		}
		_, was, err := unpack(before[0], service, l.Latest)
		switch {
		case err != nil:
			return none(err)
		case !was.Status.Over():
			return none(fmt.Errorf("%w: rollout %q is %s; another begins when it is over", run.ErrStale, l.Latest, was.Status))
		}
		ops = append(ops, directory.Require(before[0].Key, before[0].Version))
	}
	l.Latest, l.Count = t.id, l.Count+1
	lease, err := encode(l)
	if err != nil {
		return none(err)
	}
	entry, err := encode(line{schema, l.Count, t.id})
	if err != nil {
		return none(err)
	}
	ops = append(ops, directory.Put(leaseKey(service), held.Version, lease), directory.Put(lineKey(service, l.Count), 0, entry))
	return directory.Batch{Operation: t.operation, Ops: ops}, nil
}
