package directory

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxTenant    = 128  // bytes
	maxOperation = 128  // bytes
	maxName      = 16   // bytes of a cell's, shard's or size class's name, as the fleet allows
	maxBy        = 128  // bytes
	maxWhy       = 1024 // bytes
)

// MaxPins is how many pins a tenant has at most: a change of all of them, to as many others, moves
// MaxDeltas counters of the cell.
const MaxPins = 31

// State is where a tenant is in its life.
//
//	           ┌──────────────────────────┐
//	           │                          ▼
//	(nobody) ──┼─▶ placing ──────────▶ active ◀──▶ suspended
//	           │                       │  ▲            ▲
//	           │                       ▼  │            │
//	           │                      moving           │
//	           └───────────────────────────────────────┘
//
// A sign-up begins placing; an import, active or suspended. A change within active or suspended (pins,
// size class, topology) keeps the state. The cell changes only from moving to active. Everything else is
// refused with ErrState.
type State string

const (
	Placing   State = "placing"   // refused: signed up, and not every shard of the subset holds it yet
	Active    State = "active"    // served
	Suspended State = "suspended" // refused
	Moving    State = "moving"    // reads served, writes held
)

// steps has the arrows of the diagram; "" is nobody.
var steps = map[State][]State{
	"":        {Placing, Active, Suspended},
	Placing:   {Active},
	Active:    {Active, Suspended, Moving},
	Suspended: {Suspended, Active},
	Moving:    {Active},
}

// Step says whether the diagram of State has an arrow; from is "" for a tenant that is new.
func Step(from, to State) bool { return slices.Contains(steps[from], to) }

// Entry is what the directory knows of one tenant.
type Entry struct {
	Tenant    string    `json:"tenant"`             // 1 to 128 bytes of UTF-8
	Cell      string    `json:"cell"`               // the cell that serves it
	State     State     `json:"state"`              // where it is in its life
	Epoch     uint64    `json:"epoch"`              // set by the Store: rises by one with each change; the first is 1
	Size      string    `json:"size,omitempty"`     // size class; empty is the default one
	Pins      []string  `json:"pins,omitempty"`     // explicit subset, in preference order; empty when computed
	Topology  uint64    `json:"topology"`           // version of the cell's topology that places the tenant; 0 where the cell has none
	Slot      uint64    `json:"slot,omitempty"`     // 1 to the topology's Slots; 0 for schemes without slots
	Load      Rate      `json:"load,omitempty"`     // reserved on the cell
	Internal  bool      `json:"internal,omitempty"` // one's own tenant, which lives in a cell for such
	Created   time.Time `json:"created,omitzero"`   // when the first change was asked for, UTC, or what an import says; set by the directory when zero
	Updated   time.Time `json:"updated"`            // when the change was asked for, UTC; set by the caller
	Operation string    `json:"operation"`          // id of the change that wrote this entry, 1 to 128 bytes
}

// Serving is the entry with what a router needs and nothing else.
func (e Entry) Serving() Entry {
	return Entry{
		Tenant: e.Tenant, Cell: e.Cell, State: e.State, Epoch: e.Epoch, Size: e.Size,
		Pins: slices.Clone(e.Pins), Topology: e.Topology, Slot: e.Slot,
	}
}

// Errors of every Store. They come wrapped; test with errors.Is.
var (
	ErrNotFound = errors.New("tenant is not in the directory")
	ErrExists   = errors.New("tenant is in the directory already")
	ErrStale    = errors.New("the entry's epoch has moved on")
	ErrInvalid  = errors.New("not valid in the directory")
)

// ValidTenant says whether id can name a tenant: 1 to 128 bytes of valid UTF-8.
func ValidTenant(id string) bool {
	return id != "" && len(id) <= maxTenant && utf8.ValidString(id)
}

// Check says what is wrong with an entry that is to be written, wrapping ErrInvalid. Whether the
// cell, the size class and the pins exist is not its business.
func Check(e Entry) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case !ValidTenant(e.Tenant):
		problem := fmt.Sprintf("has %d bytes", len(e.Tenant))
		if !utf8.ValidString(e.Tenant) {
			problem = "is not UTF-8"
		}
		return invalid("a tenant id is 1 to %d bytes of UTF-8; this one %s", maxTenant, problem)
	case !name(e.Cell):
		return invalid("cell %q: want the name of a cell, 1 to %d characters", e.Cell, maxName)
	case steps[e.State] == nil || e.State == "":
		return invalid("state %q: want %s, %s, %s or %s", e.State, Placing, Active, Suspended, Moving)
	case e.Size != "" && !name(e.Size):
		return invalid("size class %q: want a name of at most %d characters", e.Size, maxName)
	case len(e.Pins) > MaxPins:
		return invalid("%d pins: want at most %d, which is how many can be changed at once", len(e.Pins), MaxPins)
	case e.Load < 0 || e.Load > MaxRate:
		return invalid("load %v: want 0 to %v requests per second", e.Load, MaxRate)
	case !validOperation(e.Operation):
		return invalid("operation id: want 1 to %d bytes of UTF-8, so that a repeated write is recognised", maxOperation)
	}
	for i, pin := range e.Pins {
		if !name(pin) {
			return invalid("pin %q: want the id of a shard, 1 to %d characters", pin, maxName)
		}
		if slices.Contains(e.Pins[:i], pin) {
			return invalid("pin %q stands twice; name each shard once", pin)
		}
	}
	return nil
}

// name says whether s can name a cell, a shard or a size class. Lists of names are separated by spaces.
func name(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsSpace)
}

func validOperation(id string) bool {
	return id != "" && len(id) <= maxOperation && utf8.ValidString(id)
}

// Created decides a Create: current is the tenant's entry as it stands, nil when there is none. It
// returns the entry that stands afterwards; write is false when that is current already, because this
// operation wrote it before.
func Created(current *Entry, e Entry) (after Entry, write bool, err error) {
	if err := Check(e); err != nil {
		return Entry{}, false, err
	}
	e.Epoch = 1
	switch {
	case current == nil:
		return e.Clone(), true, nil
	case e.wrote(*current):
		return current.Clone(), false, nil
	}
	return Entry{}, false, fmt.Errorf("create tenant %q: %w", e.Tenant, ErrExists)
}

// Replaced decides a CompareAndSet, in the way of Created.
func Replaced(current *Entry, expect uint64, e Entry) (after Entry, write bool, err error) {
	if err := Check(e); err != nil {
		return Entry{}, false, err
	}
	e.Epoch = expect + 1
	switch {
	case current == nil:
		return Entry{}, false, fmt.Errorf("change tenant %q: %w", e.Tenant, ErrNotFound)
	case current.Epoch == expect:
		return e.Clone(), true, nil
	case e.wrote(*current):
		return current.Clone(), false, nil
	}
	return Entry{}, false, fmt.Errorf("change tenant %q: expected epoch %d, found %d: %w",
		e.Tenant, expect, current.Epoch, ErrStale)
}

// wrote says whether current is what writing e gave. The times may differ: a repetition on a higher
// level asks again, later. An operation id used for two different changes is not believed.
func (e Entry) wrote(current Entry) bool {
	e.Updated, e.Created = current.Updated, current.Created
	return e.equal(current)
}

func (e Entry) equal(o Entry) bool {
	return e.Tenant == o.Tenant && e.Cell == o.Cell && e.State == o.State && e.Epoch == o.Epoch &&
		e.Size == o.Size && slices.Equal(e.Pins, o.Pins) && e.Topology == o.Topology && e.Slot == o.Slot &&
		e.Load == o.Load && e.Internal == o.Internal && e.Created.Equal(o.Created) &&
		e.Updated.Equal(o.Updated) && e.Operation == o.Operation
}

// Clone returns a copy that shares no memory with e.
func (e Entry) Clone() Entry {
	e.Pins = slices.Clone(e.Pins)
	return e
}

// Rate is requests per second, in thousandths, so that what is reserved and given back adds up exactly.
// Its text and JSON are the decimal number.
type Rate int64

// MaxRate is the largest rate: a thousand million requests per second.
const MaxRate Rate = 1_000_000_000_000

// PerSecond turns a number of requests per second into a Rate, rounded up to the next thousandth.
func PerSecond(r float64) (Rate, error) {
	if !(r >= 0 && r <= float64(MaxRate)/1000) { // also refuses what is not a number
		return 0, fmt.Errorf("%w: %v requests per second: want 0 to %v", ErrInvalid, r, MaxRate)
	}
	rate := Rate(r * 1000)
	if float64(rate)/1000 < r {
		rate++
	}
	return rate, nil
}

// Float is the rate in requests per second.
func (r Rate) Float() float64 { return float64(r) / 1000 }

func (r Rate) String() string {
	text := fmt.Sprintf("%d", r/1000)
	if rest := r % 1000; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", max(rest, -rest)), "0")
	}
	return text
}

// MarshalJSON implements json.Marshaler.
func (r Rate) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rate) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	rate, err := PerSecond(f)
	*r = rate
	return err
}
