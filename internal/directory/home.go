package directory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a home. They are DynamoDB's (service quotas: item size, transactions, key lengths), so that a
// directory fits wherever it moves.
const (
	MaxRecord = 400_000   // bytes of one record as Op.Size counts them; DynamoDB takes 400 KiB
	MaxOps    = 100       // operations in one batch
	MaxBatch  = 4_000_000 // bytes of all operations of one batch; DynamoDB takes 4 MB in a transaction
	maxPart   = 512       // bytes; it is the indexes' sort key, too, and DynamoDB takes 1,024 bytes of sort keys
	maxSort   = 512       // bytes
	maxIndex  = 2048      // bytes of an index value
)

// MaxDeltas is how many counters one operation moves at most: as many as the change of a tenant with all
// the pins that it may have, to as many others, and of its load. DynamoDB takes 300 operators in an
// expression, of which a delta has four (attribute_not_exists, OR, BETWEEN, and the AND in front), and
// 4 KiB, of which a delta has 61 bytes: there is room for 67.
const MaxDeltas = 2*MaxPins + 1

// Key names a record. Records of one part lie together, in the order of the bytes of Sort. The family of
// a record is Sort up to its first '#'.
type Key struct{ Part, Sort string }

// Family is what kind of record the key names.
func (k Key) Family() string {
	family, _, _ := strings.Cut(k.Sort, "#")
	return family
}

func (k Key) String() string { return fmt.Sprintf("%q/%q", k.Part, k.Sort) }

// Record is what a home keeps. A record is never deleted, so that a version never comes again.
type Record struct {
	Key
	Version   uint64           // 1 for the first Put, one more with each other; 0 means that there is no record
	Operation string           // of the batch that put it last
	Body      []byte           // JSON
	Index     [2]string        // values under which the two indexes list it; "" is in none
	Counters  map[string]int64 // moved by Deltas, kept by Puts; one that is missing is 0
}

// Index is one of a home's two secondary indexes.
type Index int

const (
	NoIndex Index = iota
	First
	Second
)

// AnyVersion in place of a version asks only that the record exists.
const AnyVersion = math.MaxUint64

// Op is one condition on a record, with what is written when all conditions of its batch hold.
type Op struct {
	Key
	Expect uint64    // version that must stand: 0 that there is none, AnyVersion that there is one
	Put    bool      // replace body and index, and raise the version
	Body   []byte    // of a Put
	Index  [2]string // of a Put
	Deltas []Delta   // counters to move
}

// Delta moves a counter by By, on the condition that the result lies from Min to Max. Moving a counter
// does not raise the record's version.
type Delta struct {
	Counter      string
	By, Min, Max int64
}

// Put replaces the record of version expect, or creates it when expect is 0.
func Put(key Key, expect uint64, body []byte, index ...string) Op {
	op := Op{Key: key, Expect: expect, Put: true, Body: body}
	copy(op.Index[:], index)
	return op
}

// Require asks that the record has this version, and moves its counters.
func Require(key Key, expect uint64, deltas ...Delta) Op {
	return Op{Key: key, Expect: expect, Deltas: deltas}
}

// Size is about what the record takes in DynamoDB, in bytes.
func (o Op) Size() int {
	size := len(o.Part) + len(o.Sort) + len(o.Body) + len(o.Index[0]) + len(o.Index[1]) + 100
	for _, d := range o.Deltas {
		size += len(d.Counter) + 21
	}
	return size
}

// Holds says whether the condition is met by the record that stands.
func (o Op) Holds(have Record) bool {
	if have.Version != o.Expect && (o.Expect != AnyVersion || have.Version == 0) {
		return false
	}
	for _, d := range o.Deltas {
		if !d.Holds(have.Counters[d.Counter]) {
			return false
		}
	}
	return true
}

// Holds says whether the counter may move from value.
func (d Delta) Holds(value int64) bool {
	sum := value + d.By
	if d.By > 0 && sum < value || d.By < 0 && sum > value { // past the ends of int64
		return false
	}
	return sum >= d.Min && sum <= d.Max
}

// Batch is written as a whole or not at all. Operation names it: the records that it puts carry that
// name, by which whoever repeats the batch recognises that it was written already.
type Batch struct {
	Operation string
	Ops       []Op
}

// ErrTooLarge marks what is larger than MaxRecord, MaxOps, MaxBatch or MaxDeltas.
var ErrTooLarge = errors.New("larger than the directory keeps")

// Check says what is wrong with a batch, whatever stands: an error that wraps ErrTooLarge or ErrInvalid.
// Every home calls it before anything else.
func (b Batch) Check() error {
	switch {
	case !validOperation(b.Operation):
		return fmt.Errorf("%w: operation id: want 1 to %d bytes of UTF-8", ErrInvalid, maxOperation)
	case len(b.Ops) == 0:
		return fmt.Errorf("%w: a batch without operations", ErrInvalid)
	case len(b.Ops) > MaxOps:
		return fmt.Errorf("%w: a batch of %d operations; at most %d", ErrTooLarge, len(b.Ops), MaxOps)
	}
	seen, total := make(map[Key]bool, len(b.Ops)), 0
	for _, o := range b.Ops {
		if err := o.Key.check(); err != nil {
			return err
		}
		switch size := o.Size() + len(b.Operation); {
		case len(o.Index[0]) > maxIndex || len(o.Index[1]) > maxIndex:
			return fmt.Errorf("%w: record %v has an index value of more than %d bytes", ErrTooLarge, o.Key, maxIndex)
		case seen[o.Key]:
			return fmt.Errorf("%w: a batch with two operations on %v", ErrInvalid, o.Key)
		case size > MaxRecord:
			return fmt.Errorf("%w: record %v has %d bytes; at most %d", ErrTooLarge, o.Key, size, MaxRecord)
		}
		if err := o.checkDeltas(); err != nil {
			return err
		}
		seen[o.Key] = true
		total += o.Size() + len(b.Operation)
	}
	if total > MaxBatch {
		return fmt.Errorf("%w: a batch of %d bytes; at most %d", ErrTooLarge, total, MaxBatch)
	}
	return nil
}

func (o Op) checkDeltas() error {
	switch {
	case len(o.Deltas) > MaxDeltas:
		return fmt.Errorf("%w: %d counters of record %v; at most %d at once", ErrTooLarge, len(o.Deltas), o.Key, MaxDeltas)
	case len(o.Deltas) > 0 && o.Expect == 0 && !o.Put:
		return fmt.Errorf("%w: counters of record %v, which must not exist", ErrInvalid, o.Key)
	}
	for i, d := range o.Deltas {
		switch {
		case d.Min > d.Max:
			return fmt.Errorf("%w: counter %q of record %v: from %d to %d is nothing", ErrInvalid, d.Counter, o.Key, d.Min, d.Max)
		case slices.ContainsFunc(o.Deltas[:i], func(e Delta) bool { return e.Counter == d.Counter }):
			return fmt.Errorf("%w: counter %q of record %v moves twice", ErrInvalid, d.Counter, o.Key)
		}
	}
	return nil
}

func (k Key) check() error {
	switch {
	case k.Part == "" || k.Sort == "" || !utf8.ValidString(k.Part) || !utf8.ValidString(k.Sort):
		return fmt.Errorf("%w: key %v: want two strings of UTF-8 that are not empty", ErrInvalid, k)
	case len(k.Part) > maxPart || len(k.Sort) > maxSort:
		return fmt.Errorf("%w: a key of %d and %d bytes; at most %d and %d", ErrTooLarge, len(k.Part), len(k.Sort), maxPart, maxSort)
	}
	return nil
}

// Apply decides a checked batch against the records that stand, which read gives. It returns the records
// that stand afterwards, for the operations that change one, or a *Conflict. Homes that lock use it.
func (b Batch) Apply(read func(Key) (Record, error)) ([]Record, error) {
	var conflict Conflict
	after := make([]Record, 0, len(b.Ops))
	for i, o := range b.Ops {
		have, err := read(o.Key)
		if err != nil {
			return nil, err
		}
		if !o.Holds(have) {
			conflict.Failed = append(conflict.Failed, Failed{i, o.Key, have})
			continue
		}
		if o.Put || len(o.Deltas) > 0 {
			after = append(after, o.apply(have, b.Operation))
		}
	}
	if len(conflict.Failed) > 0 {
		return nil, &conflict
	}
	return after, nil
}

func (o Op) apply(r Record, operation string) Record {
	r.Key = o.Key
	if o.Put {
		r.Version++
		r.Operation, r.Body, r.Index = operation, o.Body, o.Index
	}
	if len(o.Deltas) > 0 {
		counters := make(map[string]int64, len(r.Counters)+len(o.Deltas))
		for name, value := range r.Counters {
			counters[name] = value
		}
		for _, d := range o.Deltas {
			counters[d.Counter] += d.By
		}
		r.Counters = counters
	}
	return r
}

// Conflict is the error of a batch of which nothing was written, since conditions did not hold. It names
// every one of them.
type Conflict struct{ Failed []Failed }

// Failed is one operation whose condition did not hold, with the record that stood instead.
type Failed struct {
	Op   int // index in the batch
	Key  Key
	Have Record // Version is 0 when there was none
}

func (c *Conflict) Error() string {
	parts := make([]string, len(c.Failed))
	for i, f := range c.Failed {
		parts[i] = fmt.Sprintf("%v has version %d", f.Key, f.Have.Version)
	}
	return "conditions of the batch do not hold: " + strings.Join(parts, ", ")
}

// find returns what stood in the way of the operation with that index.
func (c *Conflict) find(op int) (Record, bool) {
	for _, f := range c.Failed {
		if f.Op == op {
			return f.Have, true
		}
	}
	return Record{}, false
}

// Consistency says how fresh a read has to be.
type Consistency int

const (
	Strong  Consistency = iota // as of now: everything that was acknowledged before the read began
	Relaxed                    // may be stale, from a local replica; half the price on DynamoDB
)

// Range is which records to list: those of a family, of one part or of one value of an index, or all.
type Range struct {
	Family string // needed
	Part   string // "" for every part
	Index  Index  // with Value, when Part is ""
	Value  string
}

// Cursor is a place in the feed of changes.
type Cursor string

// Errors of every home. They come wrapped.
var (
	// ErrBusy asks to come again later: nothing was written.
	ErrBusy = errors.New("the directory is busy")
	// ErrCursor means that the feed no longer reaches back to the cursor: read everything anew.
	ErrCursor = errors.New("the feed of changes does not reach back that far")
)

// Home keeps records and knows nothing of tenants. Implementations are safe for concurrent use, and share
// no memory with what goes in or comes out.
type Home interface {
	// Read returns a record for each key, in their order; one with Version 0 where there is none. Each is
	// consistent by itself, not with the others.
	Read(ctx context.Context, c Consistency, keys ...Key) ([]Record, error)
	// Write writes the batch, all of it or nothing, so that it stays whatever fails afterwards. *Conflict
	// when conditions do not hold, ErrBusy when it was turned away, what Batch.Check says; nothing is
	// written then. There is one exception: a batch that is a single Put may have been written by a try whose
	// answer was lost, and another may have put the record since; that is a *Conflict, too. With any other
	// error it is not known whether the batch is written; repeat it.
	Write(ctx context.Context, b Batch) error
	// List returns up to limit records after the key, the zero Key for the beginning, in an order that is
	// the home's own and does not change, except that within a part it is that of Sort. Fewer than limit
	// means the end. A record that is in the range during the whole of a listing is returned exactly once.
	// A listing by part is as of now; one by an index may be stale, without end to what it misses but not
	// for long.
	List(ctx context.Context, r Range, after Key, limit int) ([]Record, error)
	// Changes returns records that were put after the cursor, oldest first, each as it stands now or as
	// that put left it, with the cursor that continues; the cursor "" gives no records and the cursor of now. It tells of the
	// families that Announced names, at least once, early but without a bound. ErrCursor when the cursor
	// is too old.
	Changes(ctx context.Context, after Cursor, limit int) ([]Record, Cursor, error)
}

// Lagging is a Home whose answers to relaxed reads may be stale. A Home that is not Lagging gives every
// answer as of now.
type Lagging interface {
	Home
	// MayBeStale says whether reads of that consistency may miss the latest changes.
	MayBeStale(c Consistency) bool
}

// Announced says whether the feed of changes tells of records with this key.
func Announced(k Key) bool {
	f := k.Family()
	return f == famEntry || f == famTopology
}

// CheckRange says what is wrong with a listing. Every home calls it first.
func CheckRange(r Range, limit int) error {
	switch {
	case limit < 1:
		return fmt.Errorf("list the directory: limit %d: want at least 1", limit)
	case r.Family == "" || r.Part != "" && r.Index != NoIndex || (r.Index == NoIndex) != (r.Value == ""):
		return fmt.Errorf("list the directory: %w range %+v", ErrInvalid, r)
	}
	return nil
}

// Match says whether the record lies in the range.
func (r Range) Match(rec Record) bool {
	return rec.Family() == r.Family && (r.Part == "" || rec.Part == r.Part) &&
		(r.Index == NoIndex || rec.Index[r.Index-1] == r.Value)
}

// Clone returns a copy that shares no memory with r.
func (r Record) Clone() Record {
	r.Body = append([]byte(nil), r.Body...)
	if r.Counters != nil {
		counters := make(map[string]int64, len(r.Counters))
		for name, value := range r.Counters {
			counters[name] = value
		}
		r.Counters = counters
	}
	return r
}
