package directorytest

import (
	"context"
	"strings"

	"cellwall.dev/cellwall/internal/directory"
)

// A schedule runs clients one step at a time in an order that is chosen. A step is a call of a home or of a
// holder, and is whole; a client does nothing else that others see.

// client is one of a schedule: a home and a holder that wait for their turn. It can end behind one of its
// writes: that is done, and nobody is told.
type client struct {
	directory.Home
	directory.Holder
	ready chan string // what the next step is
	turn  chan struct{}
	ended chan error

	ends, writes int // the write behind which it ends, 0 for none
	over         bool
}

func newClient(home directory.Home, h directory.Holder) *client {
	return &client{Home: home, Holder: h, ready: make(chan string), turn: make(chan struct{}), ended: make(chan error, 1)}
}

// step waits for the client's turn to do what the label says.
func (c *client) step(label string) {
	c.ready <- label
	<-c.turn
}

// write is a step that others see.
func (c *client) write(label string, do func() error) error {
	if c.over {
		return errStep
	}
	c.step(label)
	err := do()
	if c.writes++; c.writes == c.ends {
		c.over = true
		return errStep
	}
	return err
}

func (c *client) Read(ctx context.Context, how directory.Consistency, k ...directory.Key) ([]directory.Record, error) {
	if c.over {
		return nil, errStep
	}
	c.step("read")
	return c.Home.Read(ctx, how, k...)
}

func (c *client) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if c.over {
		return nil, errStep
	}
	c.step("read")
	return c.Home.List(ctx, r, after, limit)
}

func (c *client) Write(ctx context.Context, b directory.Batch) error {
	return c.write("write", func() error { return c.Home.Write(ctx, b) })
}

func (c *client) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	return c.write("shard "+shard, func() error { return c.Holder.Hold(ctx, cell, shard, h) })
}

func (c *client) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	return c.write("shard "+shard, func() error { return c.Holder.Release(ctx, cell, shard, h) })
}

func (c *client) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	if c.over {
		return directory.Holding{}, false, errStep
	}
	c.step("shard " + shard)
	return c.Holder.Held(ctx, cell, shard, tenant)
}

// apart says whether two steps can change places without anybody seeing it: what one does is nothing to the
// other, and the states between them differ in nothing that is checked of one shard and the entry.
func apart(a, b string) bool {
	onShard := func(s string) bool { return strings.HasPrefix(s, "shard ") }
	switch {
	case a == "read":
		return b != "write"
	case b == "read":
		return a != "write"
	}
	return onShard(a) && onShard(b) && a != b
}

// choice is a point of a schedule: whose step was taken, and whose need not be, since a schedule that took it
// there was run already, or one that differs in the order of steps that are apart.
type choice struct {
	taken  int
	asleep map[int]bool
	next   map[int]string // the steps of those who were not through
}

// run runs the clients by the choices made so far, and then on in any order, which it adds. It calls after
// behind each step that others see. It is false when every order that begins so was run.
func run(made []choice, clients []*client, work []func(*client) error, after func()) (all []choice, errs []error, fresh bool) {
	errs = make([]error, len(clients))
	next := map[int]string{}
	wait := func(i int) {
		select {
		case next[i] = <-clients[i].ready:
		case errs[i] = <-clients[i].ended:
			delete(next, i)
		}
	}
	for i, c := range clients {
		go func() { c.ended <- work[i](c) }()
		wait(i)
	}
	asleep, fresh := map[int]bool{}, true
	for n := 0; len(next) > 0; n++ {
		if n == len(made) {
			at := choice{taken: -1, asleep: asleep, next: map[int]string{}}
			for i := range clients {
				if label, ok := next[i]; ok {
					at.next[i] = label
					if at.taken < 0 && !asleep[i] {
						at.taken = i
					}
				}
			}
			if at.taken < 0 { // whatever follows was run: it is gone through, to end the clients, and not counted
				fresh = false
				for i := range at.next {
					at.taken = i
				}
			}
			made = append(made, at)
		}
		at := made[n]
		asleep = map[int]bool{}
		for i := range at.asleep {
			if label, ok := at.next[i]; ok && apart(label, at.next[at.taken]) {
				asleep[i] = true
			}
		}
		clients[at.taken].turn <- struct{}{}
		wait(at.taken)
		if fresh && at.next[at.taken] != "read" {
			after()
		}
	}
	return made, errs, fresh
}

// another returns the choices that begin the next schedule; false when there is none.
func another(made []choice) ([]choice, bool) {
	for n := len(made) - 1; n >= 0; n-- {
		at := made[n]
		at.asleep = withAsleep(at.asleep, at.taken)
		for i := range at.next {
			if !at.asleep[i] {
				at.taken = i
				return append(made[:n:n], at), true
			}
		}
	}
	return nil, false
}

func withAsleep(asleep map[int]bool, i int) map[int]bool {
	more := map[int]bool{i: true}
	for j := range asleep {
		more[j] = true
	}
	return more
}
