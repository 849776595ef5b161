package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// ErrDamaged means that a record is not as this package writes it, or was written by a newer version. It comes wrapped.
var ErrDamaged = errors.New("the rollouts' journal is damaged, or a newer version of cellwall wrote it: use that version, or put a copy of the directory back")

// Store keeps rollouts in a home. It is safe for concurrent use and remembers nothing.
type Store struct{ home directory.Home }

var (
	_ run.Leases    = (*Store)(nil)
	_ run.Journal   = (*Store)(nil)
	_ run.Histories = (*Store)(nil)
	_ run.Wishes    = (*Store)(nil)
)

// New is the store in a home, which other records may share.
func New(home directory.Home) *Store { return &Store{home} }

// Bounds of names, in bytes. A service's is escaped in a key, to three times its length at most.
const (
	maxService = 64
	maxID      = 128
	maxHolder  = 256
)

// Families of records.
const (
	famLease   = "LEASE"
	famRollout = "ROLLOUT"
	famState   = "STATE"
	famEvent   = "EVENT"
	famWishes  = "WISHES"
)

func servicePart(service string) string { return "SERVICE#" + service }

// escaper keeps a service apart from the id that follows it.
var escaper = strings.NewReplacer("%", "%25", "#", "%23")

func rolloutPart(service, id string) string { return "ROLLOUT#" + escaper.Replace(service) + "#" + id }

func leaseKey(service string) directory.Key {
	return directory.Key{Part: servicePart(service), Sort: famLease}
}
func lineKey(service string, number uint64) directory.Key {
	return directory.Key{Part: servicePart(service), Sort: fmt.Sprintf("%s#%020d", famRollout, math.MaxUint64-number)}
}
func stateKey(service, id string) directory.Key {
	return directory.Key{Part: rolloutPart(service, id), Sort: famState}
}
func eventKey(service, id string, seq uint64) directory.Key {
	return directory.Key{Part: rolloutPart(service, id), Sort: fmt.Sprintf("%s#%020d", famEvent, seq)}
}
func wishesKey(service, id string) directory.Key {
	return directory.Key{Part: rolloutPart(service, id), Sort: famWishes}
}

// checkName says what is wrong with a name that is to be part of a record.
func checkName(what, name string, most int) error {
	if name == "" || len(name) > most || !utf8.ValidString(name) {
		return fmt.Errorf("%w: %s has %d bytes: want 1 to %d bytes of UTF-8", rollout.ErrInvalid, what, len(name), most)
	}
	return nil
}

func checkService(service string) error {
	return checkName("the name of the service", service, maxService)
}

func checkNames(service, id string) error {
	return errors.Join(checkService(service), checkName("the rollout's id", id, maxID))
}

// Waits between tries. They last in all patience for a caller who set no deadline; what is not known to be
// written or not is tried unsure times, in about a quarter of a second.
const (
	firstWait = time.Millisecond
	longest   = time.Second
	patience  = time.Minute
	unsure    = 9

	conflicts   = 100                   // with others who were first
	longestRace = 32 * time.Millisecond // between them
)

// tries counts what came of the tries of one call.
type tries struct {
	lost      bool // an answer, so that it is not known whether something was written
	unknown   int
	conflicts int
	waited    time.Duration
	wait      time.Duration
}

// again waits for another try after an error of the home, or returns the error with which the call ends. Nothing may depend
// on what the tries before did: the next one reads anew.
func (t *tries) again(ctx context.Context, err error) error {
	_, bounded := ctx.Deadline()
	conflict, most := (*directory.Conflict)(nil), longest
	switch {
	case errors.As(err, &conflict):
		if t.conflicts++; t.conflicts < 4 {
			return nil // somebody else was first
		}
		if t.conflicts > conflicts {
			return t.end(err)
		}
		most = longestRace
	case errors.Is(err, directory.ErrInvalid), errors.Is(err, directory.ErrTooLarge):
		return t.end(err)
	case errors.Is(err, directory.ErrBusy):
		if !bounded && t.waited >= patience {
			return t.end(err)
		}
	default:
		if t.unknown++; t.unknown >= unsure {
			return t.end(err)
		}
		if t.unknown == 1 && ctx.Err() == nil {
			return nil // whether it was written is read at once
		}
	}
	t.wait = min(max(2*t.wait, firstWait), most)
	t.waited += t.wait
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return t.end(fmt.Errorf("%w: %w", context.Cause(ctx), err))
	}
}

func (t *tries) end(err error) error {
	if t.lost {
		return fmt.Errorf("it is not known whether it was written: %w", err)
	}
	return err
}

// write writes a batch and keeps in mind whether that is known.
func (s *Store) write(ctx context.Context, t *tries, b directory.Batch) error {
	err := s.home.Write(ctx, b)
	conflict := (*directory.Conflict)(nil)
	known := err == nil || errors.As(err, &conflict) || errors.Is(err, directory.ErrBusy) ||
		errors.Is(err, directory.ErrInvalid) || errors.Is(err, directory.ErrTooLarge)
	t.lost = t.lost || !known
	return err
}

// read reads records as of now, and comes again while the home is busy.
func (s *Store) read(ctx context.Context, keys ...directory.Key) ([]directory.Record, error) {
	for t := (tries{unknown: unsure}); ; {
		records, err := s.home.Read(ctx, directory.Strong, keys...)
		if err == nil {
			return records, nil
		}
		if err := t.again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// change replaces one record by what decide makes of it, until the record is as it should be: decide returns nil then. It may
// be called several times, also after its own success.
func (s *Store) change(ctx context.Context, k directory.Key, operation string, decide func(directory.Record) ([]byte, error)) error {
	for t := (tries{}); ; {
		records, err := s.home.Read(ctx, directory.Strong, k)
		if err == nil {
			body, refused := decide(records[0])
			if refused != nil || body == nil {
				return refused
			}
			err = s.write(ctx, &t, directory.Batch{Operation: operation, Ops: []directory.Op{directory.Put(k, records[0].Version, body)}})
		}
		if err == nil {
			return nil
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}
