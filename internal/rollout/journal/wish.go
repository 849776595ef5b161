package journal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Bounds of wishes beside maxWish.
const (
	maxWaiting = 32
	remembered = 64 // that were answered
	maxBy      = 256
	maxWhy     = 1024
)

// Wish implements run.Wishes. The same wish, of the same time, comes once: also when it was answered meanwhile, for as
// long as fewer than 64 others were answered since. ErrNone when there is no such rollout.
func (s *Store) Wish(ctx context.Context, service string, w run.Wish) error {
	w.At = w.At.UTC().Round(0)
	fail := func(err error) error {
		return fmt.Errorf("wish %.50q of rollout %.200q of service %.200q: %w", w.Kind, w.Rollout, service, err)
	}
	if checkNames(service, w.Rollout) != nil {
		return fail(run.ErrNone)
	}
	mark, err := checkWish(w)
	if err != nil {
		return fail(err)
	}
	states, err := s.read(ctx, stateKey(service, w.Rollout)) // one that is there is never taken away
	switch {
	case err != nil:
		return fail(err)
	case states[0].Version == 0:
		return fail(run.ErrNone)
	}
	err = s.change(ctx, wishesKey(service, w.Rollout), wishOperation(), func(r directory.Record) ([]byte, error) {
		all, err := wishesOf(r, w.Rollout)
		if err != nil || slices.Contains(all.Answered, mark) {
			return nil, err
		}
		for _, o := range all.Waiting {
			if o.ID != w.ID {
				continue
			}
			if other, err := checkWish(o); err != nil || other != mark {
				return nil, fmt.Errorf("%w: another wish has the id %q", rollout.ErrInvalid, w.ID)
			}
			return nil, nil
		}
		if len(all.Waiting) == maxWaiting {
			return nil, fmt.Errorf("%w: %d wishes wait already; is anybody driving the rollout?", directory.ErrTooLarge, maxWaiting)
		}
		all.Waiting = append(all.Waiting, w)
		return encode(all)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// Wished implements run.Wishes. They are in the order in which they were written.
func (s *Store) Wished(ctx context.Context, service, id string) ([]run.Wish, error) {
	if checkNames(service, id) != nil {
		return nil, nil
	}
	records, err := s.read(ctx, wishesKey(service, id))
	var all wishes
	if err == nil {
		all, err = wishesOf(records[0], id)
	}
	if err != nil {
		return nil, fmt.Errorf("the wishes of rollout %q of service %q: %w", id, service, err)
	}
	return all.Waiting, nil
}

// Answer implements run.Wishes. A wish is known by its id.
func (s *Store) Answer(ctx context.Context, service string, w run.Wish) error {
	if checkNames(service, w.Rollout) != nil {
		return nil
	}
	err := s.change(ctx, wishesKey(service, w.Rollout), wishOperation(), func(r directory.Record) ([]byte, error) {
		all, err := wishesOf(r, w.Rollout)
		at := slices.IndexFunc(all.Waiting, func(o run.Wish) bool { return o.ID == w.ID })
		if err != nil || at < 0 {
			return nil, err
		}
		mark, err := checkWish(all.Waiting[at])
		if err != nil {
			return nil, err
		}
		all.Waiting = slices.Delete(all.Waiting, at, at+1)
		all.Answered = append(all.Answered, mark)
		all.Answered = all.Answered[max(0, len(all.Answered)-remembered):]
		return encode(all)
	})
	if err != nil {
		return fmt.Errorf("answer wish %.200q of rollout %q of service %q: %w", w.ID, w.Rollout, service, err)
	}
	return nil
}

func wishOperation() string { return "rollout wish " + rand.Text() }

// wishesOf reads a record of wishes; none when it is not there.
func wishesOf(r directory.Record, id string) (wishes, error) {
	all := wishes{Schema: schema, Waiting: []run.Wish{}, Answered: []string{}}
	if r.Version == 0 {
		return all, nil
	}
	all = wishes{}
	if err := decode(r, &all); err != nil {
		return all, err
	}
	if all.Schema != schema {
		return all, damaged(r.Key, "its form is %q and not %s", all.Schema, schema)
	}
	for _, w := range all.Waiting {
		if w.Rollout != id {
			return all, damaged(r.Key, "it has a wish of rollout %q", w.Rollout)
		}
		if _, err := checkWish(w); err != nil {
			return all, damaged(r.Key, "%w", err)
		}
	}
	return all, nil
}

// checkWish says what is wrong with a wish, and gives the mark that it alone has.
func checkWish(w run.Wish) (mark string, err error) {
	if err := checkName("the wish's id", w.ID, maxID); err != nil {
		return "", err
	}
	switch {
	case !slices.Contains([]rollout.EventKind{rollout.Pause, rollout.Resume, rollout.Abort, rollout.Rollback}, w.Kind):
		return "", fmt.Errorf("%w: nobody can wish for %.50q", rollout.ErrInvalid, w.Kind)
	case len(w.By) > maxBy || !utf8.ValidString(w.By):
		return "", fmt.Errorf("%w: who wishes: want at most %d bytes of UTF-8", rollout.ErrInvalid, maxBy)
	case len(w.Why) > maxWhy || !utf8.ValidString(w.Why):
		return "", fmt.Errorf("%w: the reason has %d bytes: want at most %d bytes of UTF-8", rollout.ErrInvalid, len(w.Why), maxWhy)
	}
	text, err := encode(w)
	switch {
	case err != nil:
		return "", err
	case len(text) > maxWish:
		return "", fmt.Errorf("%w: the wish has %d bytes; at most %d: ignore fewer alarms, or say why in fewer words", directory.ErrTooLarge, len(text), maxWish)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
