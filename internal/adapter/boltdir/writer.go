package boltdir

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltpages"
	"cellwall.dev/cellwall/internal/directory"
)

// maxShared is how many batches one transaction takes at most: enough to make the fsync cheap, few enough to
// answer within a moment. It takes fewer when they lie scattered: see boltpages.Full.
const maxShared = 512

// errClosed is the error of a write after Close.
var errClosed = errors.New("the directory is closed")

// writer writes batches, those that wait together by one transaction.
type writer struct {
	db      *boltfile.DB
	pages   *boltpages.Window
	queue   chan *pending
	closing chan struct{}
	once    sync.Once
	ended   chan struct{}
}

// pending is a batch that waits for its answer.
type pending struct {
	ctx   context.Context
	batch directory.Batch
	err   error
	done  chan struct{}
}

func startWriter(db *boltfile.DB, pages *boltpages.Window) *writer {
	w := &writer{db: db, pages: pages, queue: make(chan *pending, maxShared), closing: make(chan struct{}), ended: make(chan struct{})}
	go w.run()
	return w
}

// stop returns when the last transaction has ended.
func (w *writer) stop() {
	w.once.Do(func() { close(w.closing) })
	<-w.ended
}

// write returns when the batch is on disk or refused, or ctx ends; then the batch may be written yet.
func (w *writer) write(ctx context.Context, b directory.Batch) error {
	p := &pending{ctx: ctx, batch: b, done: make(chan struct{})}
	select {
	case <-w.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	case w.queue <- p:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended: // it may have been answered in the same moment
		select {
		case <-p.done:
			return p.err
		default:
			return errClosed
		}
	}
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		select {
		case <-w.closing:
			return
		case first := <-w.queue:
			w.commit(w.collect(first))
		}
	}
}

// collect takes what waits beside the first.
func (w *writer) collect(first *pending) []*pending {
	all := []*pending{first}
	for len(all) < maxShared {
		select {
		case p := <-w.queue:
			all = append(all, p)
		default:
			return all
		}
	}
	return all
}

// errNothing ends a transaction that has nothing to write, without an fsync.
var errNothing = errors.New("nothing to write")

// commit writes the batches by as few transactions as hold them.
func (w *writer) commit(all []*pending) {
	for len(all) > 0 {
		all = all[w.share(all):]
	}
}

// share decides batches in their order, the first and as many more as one transaction holds, writes those
// whose conditions hold, and returns how many it decided. Nobody is answered before the transaction is on
// disk: a conflict, too, may be with a batch of the same transaction.
func (w *writer) share(all []*pending) (decided int) {
	err := w.db.Update(func(tx *bbolt.Tx) error {
		wrote := false
		for _, p := range all {
			if boltpages.Full(tx) {
				break
			}
			decided++
			if p.err = p.ctx.Err(); p.err != nil {
				continue
			}
			before := map[directory.Key]directory.Record{}
			after, err := p.batch.Apply(func(k directory.Key) (r directory.Record, err error) {
				r, err = get(tx, k)
				before[k] = r
				w.pages.Touched(tx, 1)
				return r, err
			})
			if p.err = err; err != nil {
				continue
			}
			for _, r := range after {
				if err := put(tx, before[r.Key], r); err != nil {
					return fmt.Errorf("write the directory: %w", err)
				}
				wrote = true
				w.pages.Touched(tx, len(indexBuckets))
			}
		}
		if !wrote {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	if err != nil && decided == 0 { // no transaction began, and none will for those that wait
		decided = len(all)
	}
	for _, p := range all[:decided] {
		if err != nil {
			p.err = err
		}
		close(p.done)
	}
	return decided
}
