package shardkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

type contextKey struct{}

// From returns the tenant of a request that a Guard let through, and nil for any other.
func From(ctx context.Context) *Tenant {
	t, _ := ctx.Value(contextKey{}).(*Tenant)
	return t
}

// Tenant is who a request is from, and the way to that tenant's state. It is safe for concurrent use,
// and of no use after the request.
type Tenant struct {
	call
	g      *Guard
	once   *once // nil without a key
	out    *writer
	header http.Header // the request's

	mu    sync.Mutex
	ended bool  // a Commit succeeded, or may have, or is on its way
	err   error // of the last Commit
	sent  atomic.Int64
}

// ErrEnded means that the request cannot take effect any more: it did, or it may have, or its answer began
// before. A request takes effect once, in one Commit. It comes wrapped.
var ErrEnded = errors.New("the request took effect, or was answered, already")

// ID is the tenant's id.
func (t *Tenant) ID() string { return t.tenant }

// Epoch is the epoch of the request.
func (t *Tenant) Epoch() uint64 { return t.epoch }

// Job is the id of the job that the request is, and "" when it comes from a client directly.
func (t *Tenant) Job() string { return t.job }

// Sender is the tenant for which a shard sent the job that the request is, by Tenant.Send, and "" when a client
// asked for it. It is as true as the least trusted shard of the cell: see Job.From.
func (t *Tenant) Sender() string { return t.from }

// Get returns what the tenant has under the key: never nil when it is found, so that it can be a Write's Was.
func (t *Tenant) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	if strings.HasPrefix(key, Records) {
		return nil, false, errRecordKey(key)
	}
	value, found, err = t.g.c.Items.Get(ctx, t.tenant, key)
	if found && value == nil {
		value = []byte{}
	}
	return value, found, err
}

// List returns the tenant's keys that begin with the prefix, in byte order, of those that are the service's.
func (t *Tenant) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := t.g.c.Items.List(ctx, t.tenant, prefix)
	return slices.DeleteFunc(keys, func(k string) bool { return strings.HasPrefix(k, Records) }), err
}

func errRecordKey(key string) error {
	return fmt.Errorf("%w: the key %q: those that begin with %s are idempotency records; choose another", ErrInvalid, key, Records)
}

// Commit has the request take effect and answers it: it does all of the writes or none, in one transaction, provided
// that the shard still holds the tenant at an epoch that is not above the request's, and writes the answer
// to w when they are durable. With an idempotency key the answer is recorded in the same transaction, which
// fails when the key has a record by then; the request is answered by that record instead, and Commit
// returns nil. Without writes and without a key it only answers.
//
// A request commits once. What a handler does apart from that is not covered: neither another system's
// state nor Send.
//
// On an error w is untouched and can be given to Fail; a handler that answers nothing gets Fail's answer.
// ErrNotHeld, ErrChanged, ErrInvalid and ErrAnswer: nothing was done, and Commit may be called again. ErrEnded: this call did nothing. After another error the writes may be done or not.
func (t *Tenant) Commit(ctx context.Context, w http.ResponseWriter, a Answer, writes ...Write) error {
	t.mu.Lock()
	if t.ended || t.out.begun.Load() {
		t.mu.Unlock()
		return fmt.Errorf("commit: %w", ErrEnded)
	}
	t.ended = true
	t.mu.Unlock()

	done, err := t.commit(ctx, w, a, writes)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.err = done, err
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// commit says whether something was done, or may have been.
func (t *Tenant) commit(ctx context.Context, w http.ResponseWriter, a Answer, writes []Write) (done bool, err error) {
	for _, one := range writes {
		if strings.HasPrefix(one.Key, Records) {
			return false, errRecordKey(one.Key)
		}
	}
	if err := a.check(); err != nil {
		return false, err
	}
	if t.once != nil {
		record, err := t.once.write(a, t.g.c.Now())
		if err != nil {
			return false, err
		}
		writes = append(slices.Clone(writes), record)
	}
	if len(writes) == 0 {
		a.write(w)
		return true, nil
	}
	err = t.g.c.Items.Write(ctx, t.tenant, t.epoch, writes...)
	switch {
	case err == nil:
		a.write(w)
		return true, nil
	case errors.Is(err, ErrNotHeld):
		return false, t.moved(ctx, err)
	case errors.Is(err, ErrChanged) && t.once != nil:
		// Of the service's keys, or another execution of this request was first.
		before, readErr := t.once.recorded(ctx, t.g.c.Items, t.tenant)
		if readErr != nil {
			return false, fmt.Errorf("read what was answered before: %w", readErr)
		}
		if before != nil {
			t.once.replay(w, before)
			return true, nil
		}
		return false, err
	case errors.Is(err, ErrChanged), errors.Is(err, ErrInvalid):
		return false, err
	}
	return true, err
}

// moved adds to ErrNotHeld since when the shard holds the tenant, if it does.
func (t *Tenant) moved(ctx context.Context, err error) error {
	if since, held, heldErr := t.g.c.Items.Held(ctx, t.tenant); heldErr == nil && held && since > t.epoch {
		return &notHeldError{since}
	}
	return err
}

// committing says whether a Commit answered the request, or is about to.
func (t *Tenant) committing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// failure is why the request did not take effect though it was to.
func (t *Tenant) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// writer sees whether an answer has begun, and lets only one begin.
type writer struct {
	http.ResponseWriter
	begun atomic.Bool
	// instead answers in a refusal's place, or returns false; nil for never.
	instead func() bool
	muted   bool // it did
}

func (w *writer) WriteHeader(status int) {
	if status >= 200 && w.begun.Swap(true) {
		return // the one that began stands
	}
	if status >= 400 && status <= 499 && status != http.StatusMisdirectedRequest && w.instead != nil && w.instead() {
		w.muted = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.muted {
		return len(p), nil
	}
	w.begun.Store(true)
	return w.ResponseWriter.Write(p)
}

// begun says whether an answer began through a guard, however w is wrapped in between.
func begun(w http.ResponseWriter) bool {
	for {
		switch as := w.(type) {
		case *writer:
			return as.begun.Load()
		case interface{ Unwrap() http.ResponseWriter }:
			w = as.Unwrap()
		default:
			return false
		}
	}
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for services that ask for an http.Flusher.
func (w *writer) Flush() {
	if w.muted {
		return
	}
	w.begun.Store(true)
	// A writer that cannot flush sends at the end.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
