package directory

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	maxTenant    = 128 // bytes
	maxOperation = 128 // bytes
	maxPins      = 100 // the most target groups one load balancer takes; a subset is far smaller
	maxName      = 16  // bytes of a cell's, shard's or size class's name, as the fleet allows
)

// ValidTenant says whether id can name a tenant: 1 to 128 bytes of valid UTF-8.
func ValidTenant(id string) bool {
	return id != "" && len(id) <= maxTenant && utf8.ValidString(id)
}

// Check says what is wrong with an entry that is to be written, wrapping ErrInvalid. Whether the cell,
// the size class and the pins exist is for the caller to know, who has the fleet.
func Check(e Entry) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case !ValidTenant(e.Tenant):
		return invalid("a tenant id is 1 to %d bytes of UTF-8; this one has %d bytes", maxTenant, len(e.Tenant))
	case !name(e.Cell):
		return invalid("cell %q: want the name of a cell, 1 to %d characters", e.Cell, maxName)
	case e.State != Active && e.State != Suspended && e.State != Moving:
		return invalid("state %q: want %s, %s or %s", e.State, Active, Suspended, Moving)
	case e.Size != "" && !name(e.Size):
		return invalid("size class %q: want a name of at most %d characters", e.Size, maxName)
	case len(e.Pins) > maxPins:
		return invalid("%d pins: want at most %d", len(e.Pins), maxPins)
	case e.Operation == "" || len(e.Operation) > maxOperation || !utf8.ValidString(e.Operation):
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

func name(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }

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

// wrote says whether current is what writing e gave. The time may differ: a repetition on a higher
// level asks again, later. An operation id used for two different changes is not believed.
func (e Entry) wrote(current Entry) bool {
	e.Updated = current.Updated
	return e.equal(current)
}

func (e Entry) equal(o Entry) bool {
	return e.Tenant == o.Tenant && e.Cell == o.Cell && e.State == o.State && e.Epoch == o.Epoch &&
		e.Size == o.Size && slices.Equal(e.Pins, o.Pins) && e.Topology == o.Topology &&
		e.Updated.Equal(o.Updated) && e.Operation == o.Operation
}

// Clone returns a copy that shares no memory with e.
func (e Entry) Clone() Entry {
	e.Pins = slices.Clone(e.Pins)
	return e
}
