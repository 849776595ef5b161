package dircache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// TestOvertaken: a reading that began before another and ends after it brings nothing back.
func TestOvertaken(t *testing.T) {
	c := cacheOf(t, Config{Directory: home{newWorld()}, Cell: "eu-1"})
	now := c.now()
	ann := directory.Entry{Tenant: "ann", Cell: "eu-1", State: directory.Active, Epoch: 7}
	c.learn(ann, now, false)
	c.learnUnknown("ann", now+2, false)
	if r := c.learn(ann, now+1, false); !r.unknown() {
		t.Error("an entry came back after the directory said that there is none")
	}
	ann.Epoch = 1
	if r := c.learn(ann, now+3, false); r.epoch != 1 {
		t.Errorf("who signed up again is remembered at epoch %d", r.epoch)
	}
	if r := c.learnUnknown("ann", now+2, false); r.unknown() {
		t.Error("an entry is gone by an older word")
	}

	// Who came from another cell is no stranger any more, whatever is forgotten later.
	away := directory.Entry{Tenant: "bob", Cell: "us-1", State: directory.Active, Epoch: 1}
	c.learn(away, now, false)
	here := away
	here.Cell, here.Epoch = "eu-1", 2
	c.learn(here, now, false)
	c.tenants.remove("bob")
	if r := c.remembered("bob"); r != nil {
		t.Errorf("after its entry was forgotten, an older one at epoch %d is left", r.epoch)
	}
}

// TestGate: many failures at once are one reason to pause; each probe that fails doubles the pause, up to a
// bound; one success ends it; and who leaves says nothing.
func TestGate(t *testing.T) {
	g := &gate{spread: func(d time.Duration) int64 { return int64(d) }}
	for range 100 {
		g.failed(0, false, errDown)
	}
	now := int64(0)
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		pause *= time.Second
		if _, err := g.enter(now + int64(pause) - 1); !errors.Is(err, errShut) || !errors.Is(err, errDown) {
			t.Fatalf("before a pause of %v is over: %v", pause, err)
		}
		now += int64(pause)
		if probe, err := g.enter(now); !probe || err != nil {
			t.Fatalf("after a pause of %v: %t, %v", pause, probe, err)
		}
		if _, err := g.enter(now); err == nil {
			t.Fatal("two probes at once")
		}
		g.left(true)
		if probe, err := g.enter(now); !probe || err != nil {
			t.Fatalf("after a probe left: %t, %v", probe, err)
		}
		g.failed(now, true, errDown)
	}
	g.answered()
	if probe, err := g.enter(now); probe || err != nil {
		t.Errorf("after an answer: %t, %v", probe, err)
	}
}

// TestLeaversSayNothing of the directory: those who come next are let through.
func TestLeaversSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set("ann", "eu-1", directory.Active)
		w.takes(500 * time.Millisecond)
		c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Single: true})
		for range 2 * shutAfter {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := c.Entry(ctx, "ann"); err == nil {
				t.Error("an answer in no time")
			}
			cancel()
		}
		if _, err := c.Entry(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
	})
}

// TestAStaleNoIsNoAnswer: when readings of strangers have run out, who was unknown some time ago is not said to
// be unknown still.
func TestAStaleNoIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cacheOf(t, Config{Directory: home{newWorld()}, Cell: "eu-1"})
		if _, err := c.Entry(t.Context(), "ann"); !errors.Is(err, directory.ErrNotFound) {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		for !c.unknown.empty(c.now()) {
			c.unknown.slots <- struct{}{}
			c.unknown.leave(c.now(), true)
		}
		if _, err := c.Entry(t.Context(), "ann"); !errors.Is(err, ErrTooMany) || errors.Is(err, directory.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestPostponed: a tenant for whom the directory did not answer is not looked up again at once.
func TestPostponed(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.set("ann", "eu-1", directory.Active)
			c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Single: single})
			c.Entry(t.Context(), "ann")
			time.Sleep(time.Hour)
			w.turn("home", true)
			c.Entry(t.Context(), "ann")
			time.Sleep(again/2 - time.Millisecond)
			if r := c.remembered("ann"); !c.good(r, c.now()) {
				t.Error("the next request looks it up again")
			}
		})
	}
}

// TestQuiet: a shard that refuses one tenant for nothing, again and again, causes fewer readings each time.
func TestQuiet(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.set("ann", "eu-1", directory.Active)
			c := cacheOf(t, Config{Directory: home{w}, Cell: "eu-1", Single: single})
			for range 3000 {
				if k, err := c.Fresh(t.Context(), "ann", 1); err != nil || k.Epoch != 1 {
					t.Fatal(k, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n := w.readings(); n < 8 || n > 24 { // 0.1, 0.2, ... 3.2, 5, 5... s, or half of each
				t.Errorf("%d readings in 30 s", n)
			}
		})
	}
}
