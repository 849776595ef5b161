package run

import "time"

// Clock is the time of a driver.
type Clock interface {
	Now() time.Time
	// After is a channel that receives once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Wall is the clock of the machine.
type Wall struct{}

// Now is the time in UTC, without a monotonic part: what is journalled is read back as it was.
func (Wall) Now() time.Time { return time.Now().UTC().Round(0) }

// After is time.After.
func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }
