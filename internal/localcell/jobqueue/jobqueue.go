// Package jobqueue is what a queue service is to a local cell: queues of jobs on one bbolt file, which behave
// as those of SQS with fair queues do.
//
// # Guarantees
//
// Each has a test of the same name.
//
//  1. Durable: a message whose Send returned is delivered until it is deleted, also by a process that opens the
//     file after the one before was killed.
//  2. HiddenWhileServed: a message that was delivered is not delivered again before its time-out, and is
//     afterwards. The receipt of a delivery is of no use after the next one.
//  3. Fair: of the groups with a message to deliver, the one with the fewest under way is next, and of those
//     the one whose message has waited longest. A group with a thousand messages does not hold up one with one.
//  4. DeadAfterMaxReceive: a message that was delivered so many times is not delivered again; it waits among
//     the dead, where somebody sees it.
//  5. MovedWhole: Move takes a message away and sends another in one transaction.
package jobqueue

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
)

// Limits of a message and of a request.
const (
	MaxBody    = 1 << 20          // bytes, as SQS takes (SQS quotas, message size)
	MaxName    = 256              // bytes of a queue's, a group's and a message's name
	MaxReceive = 10               // messages in one answer, as SQS gives
	MaxWait    = 20 * time.Second // for messages to come, as SQS waits
	MaxHidden  = 12 * time.Hour   // of a delivered message
)

// Errors of a queue. They come wrapped.
var (
	// ErrInvalid means that no queue takes the request.
	ErrInvalid = errors.New("not valid in a queue")
	// ErrReceipt means that the delivery is over: its message was deleted, or delivered again.
	ErrReceipt = errors.New("the message was deleted or delivered again")
	errClosed  = errors.New("the queues are closed")
)

var (
	liveBucket = []byte("jobs") // queue, number → record
	deadBucket = []byte("dead") // the same, of what was delivered too often
)

// Message is one job in a queue.
type Message struct {
	ID    string `json:"id"`    // the sender's; two messages may have one
	Group string `json:"group"` // whose turn it is
	Body  []byte `json:"body"`
}

// Delivery is a message that was received.
type Delivery struct {
	Message
	Receipt  string `json:"receipt"`
	Receives int    `json:"receives"` // this one included
}

// Receive says what to deliver.
type Receive struct {
	Queue      string        `json:"queue"`
	Max        int           `json:"max"`        // 1 to MaxReceive messages
	Hidden     time.Duration `json:"hidden"`     // from the delivery on, up to MaxHidden
	MaxReceive int           `json:"maxReceive"` // deliveries of one message, at least 1
	Wait       time.Duration `json:"wait"`       // for a message to come, up to MaxWait
}

// Stats are how many messages a queue has.
type Stats struct {
	Waiting int           `json:"waiting"`
	Served  int           `json:"served"` // delivered, and neither deleted nor timed out yet
	Dead    int           `json:"dead"`
	Oldest  time.Duration `json:"oldest"` // age of the oldest that is not dead
}

// record is a message on disk.
type record struct {
	Message
	Sent     time.Time `json:"sent"`
	Receives int       `json:"receives,omitempty"`
	Visible  time.Time `json:"visible,omitzero"`
}

// Queues are all queues of a file. They are safe for concurrent use.
type Queues struct {
	db  *boltfile.DB
	now func() time.Time

	writes chan write
	stop   chan struct{} // closed by Close
	ended  chan struct{} // closed when the committer has returned

	mu    sync.Mutex
	lines map[string]*line
}

// Open opens the queues at path, which is there; the errors of boltfile.
func Open(path string) (*Queues, error) {
	db, err := boltfile.Open(path, prepare)
	return start(path, db, err)
}

// Create is Open, but makes a file without messages, readable by its owner only, where there is none.
func Create(path string) (*Queues, error) {
	db, err := boltfile.Create(path, prepare)
	return start(path, db, err)
}

func prepare(db *boltfile.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{liveBucket, deadBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

func start(path string, db *boltfile.DB, err error) (*Queues, error) {
	if err != nil {
		return nil, fmt.Errorf("open the queues %s: %w", path, err)
	}
	q := &Queues{
		db: db, now: time.Now, lines: map[string]*line{},
		writes: make(chan write), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := db.View(q.load); err != nil {
		return nil, errors.Join(fmt.Errorf("open the queues %s: %w", path, err), db.Close())
	}
	go q.commit()
	return q, nil
}

// load reads what waits.
func (q *Queues) load(tx *bbolt.Tx) error {
	err := tx.Bucket(liveBucket).ForEach(func(k, v []byte) error {
		name, seq, ok := parseKey(k)
		var r record
		if !ok || json.Unmarshal(v, &r) != nil {
			return fmt.Errorf("%w: the message %x cannot be read", boltfile.ErrDamaged, k)
		}
		q.line(name).add(seq, r)
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Bucket(deadBucket).ForEach(func(k, _ []byte) error {
		name, _, ok := parseKey(k)
		if !ok {
			return fmt.Errorf("%w: the message %x cannot be read", boltfile.ErrDamaged, k)
		}
		q.line(name).dead++
		return nil
	})
}

// line is the queue of this name, under the lock.
func (q *Queues) line(name string) *line {
	l := q.lines[name]
	if l == nil {
		l = newLine()
		q.lines[name] = l
	}
	return l
}

// Close refuses further requests, waits for what is on its way to disk and lets go of the file. It is called
// once.
func (q *Queues) Close() error {
	close(q.stop)
	<-q.ended
	return q.db.Close()
}

// Send puts a message into a queue. After an error other than ErrInvalid it may be there or not.
func (q *Queues) Send(ctx context.Context, queue string, m Message) error {
	if err := check(queue, m); err != nil {
		return err
	}
	r := record{Message: m, Sent: q.now()}
	return q.do(ctx, func(tx *bbolt.Tx) (func(), error) { return q.put(tx, queue, r) })
}

// put writes a new message, and returns what makes it known when it is on disk.
func (q *Queues) put(tx *bbolt.Tx, queue string, r record) (known func(), err error) {
	b := tx.Bucket(liveBucket)
	seq, err := b.NextSequence()
	if err != nil {
		return nil, err
	}
	if err := putRecord(b, key(queue, seq), r); err != nil {
		return nil, err
	}
	return func() { q.line(queue).add(seq, r) }, nil
}

// Delete ends a message for good. ErrReceipt when it is over or not this delivery's any more.
func (q *Queues) Delete(ctx context.Context, queue, receipt string) error {
	return q.do(ctx, func(tx *bbolt.Tx) (func(), error) { return q.drop(tx, queue, receipt) })
}

func (q *Queues) drop(tx *bbolt.Tx, queue, receipt string) (known func(), err error) {
	seq, err := q.served(queue, receipt)
	if err != nil {
		return nil, err
	}
	b, k := tx.Bucket(liveBucket), key(queue, seq)
	if b.Get(k) == nil { // by another change of the same transaction
		return nil, fmt.Errorf("%w: queue %s", ErrReceipt, queue)
	}
	if err := b.Delete(k); err != nil {
		return nil, err
	}
	return func() { q.line(queue).remove(seq) }, nil
}

// Move deletes a delivered message and sends another in its place, in one transaction.
func (q *Queues) Move(ctx context.Context, from, receipt, to string, m Message) error {
	if err := check(to, m); err != nil {
		return err
	}
	r := record{Message: m, Sent: q.now()}
	return q.do(ctx, func(tx *bbolt.Tx) (func(), error) {
		gone, err := q.drop(tx, from, receipt)
		if err != nil {
			return nil, err
		}
		there, err := q.put(tx, to, r)
		if err != nil {
			return nil, err
		}
		return func() { gone(); there() }, nil
	})
}

// Delay has a delivered message come again after d, 0 for at once.
func (q *Queues) Delay(ctx context.Context, queue, receipt string, d time.Duration) error {
	if d < 0 || d > MaxHidden {
		return fmt.Errorf("%w: hidden for %v", ErrInvalid, d)
	}
	return q.do(ctx, func(tx *bbolt.Tx) (func(), error) {
		seq, err := q.served(queue, receipt)
		if err != nil {
			return nil, err
		}
		k, until := key(queue, seq), q.now().Add(d)
		var rec record
		if v := tx.Bucket(liveBucket).Get(k); v == nil {
			return nil, fmt.Errorf("%w: queue %s", ErrReceipt, queue)
		} else if err := json.Unmarshal(v, &rec); err != nil {
			return nil, fmt.Errorf("%w: the message %x cannot be read", boltfile.ErrDamaged, k)
		}
		rec.Visible = until
		if err := putRecord(tx.Bucket(liveBucket), k, rec); err != nil {
			return nil, err
		}
		return func() { q.line(queue).show(seq, until) }, nil
	})
}

// served is the number of a message that this receipt's delivery still has.
func (q *Queues) served(queue, receipt string) (seq uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seq, ok := q.line(queue).served(receipt)
	if !ok {
		return 0, fmt.Errorf("%w: queue %s", ErrReceipt, queue)
	}
	return seq, nil
}

// Stats counts a queue's messages.
func (q *Queues) Stats(queue string) Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[queue]
	if l == nil {
		return Stats{}
	}
	return l.stats(q.now())
}

// All counts the messages of every queue that has some.
func (q *Queues) All() map[string]Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]Stats{}
	for name, l := range q.lines {
		if s := l.stats(q.now()); s != (Stats{}) {
			all[name] = s
		}
	}
	return all
}

func check(queue string, m Message) error {
	for what, text := range map[string]string{"queue": queue, "group": m.Group, "id": m.ID} {
		if text == "" || len(text) > MaxName {
			return fmt.Errorf("%w: a %s of %d bytes: want 1 to %d", ErrInvalid, what, len(text), MaxName)
		}
	}
	if len(m.Body) > MaxBody {
		return fmt.Errorf("%w: a body of %d bytes: want at most %d", ErrInvalid, len(m.Body), MaxBody)
	}
	return nil
}

func putRecord(b *bbolt.Bucket, k []byte, r record) error {
	v, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Put(k, v)
}

// key is the length of the queue's name, the name and the number: what is of one queue lies together, in order.
func key(queue string, seq uint64) []byte {
	k := binary.AppendUvarint(make([]byte, 0, len(queue)+10), uint64(len(queue)))
	return binary.BigEndian.AppendUint64(append(k, queue...), seq)
}

func parseKey(k []byte) (queue string, seq uint64, ok bool) {
	n, used := binary.Uvarint(k)
	if used <= 0 || uint64(len(k)-used) < 8 || n != uint64(len(k)-used-8) {
		return "", 0, false
	}
	return string(k[used : used+int(n)]), binary.BigEndian.Uint64(k[used+int(n):]), true
}
