package jobqueue

import (
	"fmt"
	"slices"
	"time"
)

// line is one queue without its bodies. It is used under the lock of Queues.
type line struct {
	entries map[uint64]*entry
	groups  map[string][]*entry // in the order of their numbers
	dead    int
	changed chan struct{} // closed when a message may have come to wait
}

// entry is one message.
type entry struct {
	seq      uint64
	group    string
	sent     time.Time
	receives int
	visible  time.Time // when it may be delivered
}

func newLine() *line {
	return &line{entries: map[uint64]*entry{}, groups: map[string][]*entry{}, changed: make(chan struct{})}
}

// receipt names the last delivery of the message.
func (e *entry) receipt() string { return fmt.Sprintf("%d-%d", e.seq, e.receives) }

// hidden says whether the message was delivered and its time is not over.
func (e *entry) hidden(now time.Time) bool { return e.visible.After(now) }

func (l *line) add(seq uint64, r record) {
	e := &entry{seq, r.Group, r.Sent, r.Receives, r.Visible}
	l.entries[seq] = e
	l.groups[e.group] = append(l.groups[e.group], e) // numbers only rise
	l.wake()
}

func (l *line) remove(seq uint64) {
	e := l.entries[seq]
	if e == nil {
		return
	}
	delete(l.entries, seq)
	rest := slices.DeleteFunc(l.groups[e.group], func(other *entry) bool { return other == e })
	if l.groups[e.group] = rest; len(rest) == 0 {
		delete(l.groups, e.group)
	}
}

func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// take marks up to r.Max messages as delivered, fairly, and returns copies of them.
func (l *line) take(now time.Time, r Receive) (taken []*entry) {
	for len(taken) < r.Max {
		e := l.fairest(now)
		if e == nil {
			break
		}
		e.receives++
		e.visible = now.Add(r.Hidden)
		one := *e
		taken = append(taken, &one)
	}
	return taken
}

// giveBack undoes a take of which nothing was delivered.
func (l *line) giveBack(taken []*entry) {
	for _, t := range taken {
		if e := l.entries[t.seq]; e != nil && e.receives == t.receives {
			e.receives--
			e.visible = time.Time{}
		}
	}
	l.wake()
}

// fairest is the next message to deliver: of the group with the fewest under way, the one that waits longest.
func (l *line) fairest(now time.Time) (best *entry) {
	fewest := 0
	for _, group := range l.groups {
		under := 0
		var first *entry
		for _, e := range group {
			if e.hidden(now) {
				under++
			} else if first == nil {
				first = e
			}
		}
		if first != nil && (best == nil || under < fewest || under == fewest && first.seq < best.seq) {
			best, fewest = first, under
		}
	}
	return best
}

// next is when the first hidden message may be delivered again; zero when none is hidden.
func (l *line) next(now time.Time) (first time.Time) {
	for _, e := range l.entries {
		if e.hidden(now) && (first.IsZero() || e.visible.Before(first)) {
			first = e.visible
		}
	}
	return first
}

// served is the number of the message whose last delivery the receipt names.
func (l *line) served(receipt string) (uint64, bool) {
	var seq uint64
	var receives int
	if n, err := fmt.Sscanf(receipt, "%d-%d", &seq, &receives); n != 2 || err != nil {
		return 0, false
	}
	e := l.entries[seq]
	return seq, e != nil && receives > 0 && e.receipt() == receipt
}

func (l *line) show(seq uint64, at time.Time) {
	if e := l.entries[seq]; e != nil {
		e.visible = at
		l.wake()
	}
}

func (l *line) stats(now time.Time) Stats {
	s := Stats{Dead: l.dead}
	for _, e := range l.entries {
		if e.hidden(now) {
			s.Served++
		} else {
			s.Waiting++
		}
		s.Oldest = max(s.Oldest, now.Sub(e.sent))
	}
	return s
}
