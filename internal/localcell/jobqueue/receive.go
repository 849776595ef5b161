package jobqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
)

// Receive delivers what waits, and waits for it when nothing does. No message is no error.
func (q *Queues) Receive(ctx context.Context, r Receive) ([]Delivery, error) {
	if r.Queue == "" || len(r.Queue) > MaxName || r.Max < 1 || r.Max > MaxReceive || r.Hidden <= 0 || r.Hidden > MaxHidden ||
		r.MaxReceive < 1 || r.Wait < 0 || r.Wait > MaxWait {
		return nil, fmt.Errorf("%w: receive %+v", ErrInvalid, r)
	}
	over := q.now().Add(r.Wait)
	for {
		q.mu.Lock()
		l := q.line(r.Queue)
		taken := l.take(q.now(), r)
		next, changed := l.next(q.now()), l.changed
		q.mu.Unlock()
		if len(taken) > 0 {
			out, err := q.deliver(ctx, r, taken)
			if err != nil {
				q.mu.Lock()
				l.giveBack(taken)
				q.mu.Unlock()
				return nil, err
			}
			if len(out) > 0 {
				return out, nil
			}
			continue // all of them are dead now
		}
		wait := over.Sub(q.now())
		if !next.IsZero() {
			wait = min(wait, next.Sub(q.now()))
		}
		if !q.now().Before(over) {
			return nil, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-q.stop:
			timer.Stop()
			return nil, errClosed
		}
		timer.Stop()
	}
}

// deliver writes down that messages were taken, before anybody sees them.
func (q *Queues) deliver(ctx context.Context, r Receive, taken []*entry) (out []Delivery, err error) {
	err = q.do(ctx, func(tx *bbolt.Tx) (func(), error) {
		out = nil
		var dead []*entry
		live := tx.Bucket(liveBucket)
		for _, e := range taken {
			k := key(r.Queue, e.seq)
			var rec record
			if v := live.Get(k); v == nil {
				continue
			} else if err := json.Unmarshal(v, &rec); err != nil {
				return nil, fmt.Errorf("%w: the message %x cannot be read", boltfile.ErrDamaged, k)
			}
			if e.receives > r.MaxReceive {
				if err := errors.Join(tx.Bucket(deadBucket).Put(k, bytes.Clone(live.Get(k))), live.Delete(k)); err != nil {
					return nil, err
				}
				dead = append(dead, e)
				continue
			}
			rec.Receives, rec.Visible = e.receives, e.visible
			if err := putRecord(live, k, rec); err != nil {
				return nil, err
			}
			out = append(out, Delivery{rec.Message, e.receipt(), rec.Receives})
		}
		return func() {
			l := q.line(r.Queue)
			for _, e := range dead {
				l.remove(e.seq)
				l.dead++
			}
		}, nil
	})
	return out, err
}
