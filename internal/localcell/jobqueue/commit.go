package jobqueue

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltpages"
)

// maxGroup is the most changes in one transaction.
const maxGroup = 256

// write is a change that is made in a transaction with others, so that they wait for one fsync.
type write struct {
	ctx   context.Context
	apply func(*bbolt.Tx) (known func(), err error)
	done  chan error // has room for one
}

// do has a change made on disk and then, by what apply returns, in memory. Once it is handed over it is
// waited for: its caller is never told less than what became of it.
func (q *Queues) do(ctx context.Context, apply func(*bbolt.Tx) (func(), error)) error {
	w := write{ctx, apply, make(chan error, 1)}
	select {
	case q.writes <- w:
		return <-w.done
	case <-q.stop:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit writes group after group until Close.
func (q *Queues) commit() {
	defer close(q.ended)
	for {
		select {
		case first := <-q.writes:
			for group := q.gather(first); len(group) > 0; {
				group = group[q.commitSome(group):]
			}
		case <-q.stop:
			return
		}
	}
}

// gather takes what has come in meanwhile, without waiting for more.
func (q *Queues) gather(first write) []write {
	group := []write{first}
	for len(group) < maxGroup {
		select {
		case w := <-q.writes:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

// commitSome makes the first changes of a group, as many as one transaction holds. A change that is refused
// leaves the others as they are, since it refuses before it writes.
func (q *Queues) commitSome(group []write) (made int) {
	errs, known := make([]error, len(group)), make([]func(), len(group))
	err := q.db.Update(func(tx *bbolt.Tx) error {
		for i, w := range group {
			if boltpages.Full(tx) {
				break
			}
			made++
			if errs[i] = w.ctx.Err(); errs[i] == nil {
				known[i], errs[i] = w.apply(tx)
			}
		}
		return nil
	})
	if err != nil && made == 0 { // no transaction began, and none will for those that wait
		made = len(group)
	}
	q.mu.Lock()
	for i := range made {
		if err == nil && errs[i] == nil && known[i] != nil {
			known[i]()
		}
	}
	q.mu.Unlock()
	for i, w := range group[:made] {
		if err != nil && errs[i] == nil {
			errs[i] = fmt.Errorf("write to the queues: %w", err)
		}
		w.done <- errs[i]
	}
	return made
}
