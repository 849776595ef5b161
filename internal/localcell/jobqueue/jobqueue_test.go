package jobqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	c.t = c.t.Add(d)
	c.mu.Unlock()
}

func open(t *testing.T, path string) (*Queues, *clock) {
	t.Helper()
	q, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	q.now = c.now
	return q, c
}

func fresh(t *testing.T) (*Queues, *clock) {
	t.Helper()
	q, c := open(t, filepath.Join(t.TempDir(), "queues.db"))
	t.Cleanup(func() { q.Close() })
	return q, c
}

func message(id, group string) Message {
	return Message{ID: id, Group: group, Body: []byte("body of " + id)}
}

func send(t *testing.T, q *Queues, queue string, messages ...Message) {
	t.Helper()
	for _, m := range messages {
		if err := q.Send(t.Context(), queue, m); err != nil {
			t.Fatal(err)
		}
	}
}

func receive(t *testing.T, q *Queues, queue string, most int) []Delivery {
	t.Helper()
	got, err := q.Receive(t.Context(), Receive{Queue: queue, Max: most, Hidden: time.Minute, MaxReceive: 3})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ids(got []Delivery) (all []string) {
	for _, d := range got {
		all = append(all, d.ID)
	}
	return all
}

// TestDurable closes the file at random moments between sends, deliveries and deletions: all that was
// acknowledged, and nothing else, is delivered in the end.
func TestDurable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "queues.db")
	q, c := open(t, path)
	want := map[string]bool{}
	for i := range 120 {
		queue := fmt.Sprint("q", random.IntN(3))
		switch random.IntN(4) {
		case 0, 1:
			id := fmt.Sprint(i)
			send(t, q, queue, message(id, "g"))
			want[queue+" "+id] = true
		case 2:
			for _, d := range receive(t, q, queue, 1) {
				if random.IntN(2) == 0 {
					if err := q.Delete(t.Context(), queue, d.Receipt); err != nil {
						t.Fatal(err)
					}
					delete(want, queue+" "+d.ID)
				}
			}
		case 3:
			at := c.now()
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			if q, c = open(t, path); true {
				c.pass(at.Sub(c.now()))
			}
		}
	}
	defer func() { q.Close() }()
	c.pass(time.Hour)
	got := map[string]bool{}
	for _, queue := range []string{"q0", "q1", "q2"} {
		for {
			some, err := q.Receive(t.Context(), Receive{Queue: queue, Max: 10, Hidden: time.Hour, MaxReceive: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				break
			}
			for _, d := range some {
				if string(d.Body) != "body of "+d.ID || d.Group != "g" {
					t.Errorf("delivered %+v", d)
				}
				got[queue+" "+d.ID] = true
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d messages delivered, want %d", len(got), len(want))
	}
	for id := range want {
		if !got[id] {
			t.Errorf("message %s is lost", id)
		}
	}
}

func TestHiddenWhileServed(t *testing.T) {
	q, c := fresh(t)
	send(t, q, "q", message("1", "g"))
	first := receive(t, q, "q", 10)
	if len(first) != 1 || first[0].Receives != 1 {
		t.Fatalf("delivered %+v", first)
	}
	c.pass(59 * time.Second)
	if again := receive(t, q, "q", 10); len(again) > 0 {
		t.Errorf("delivered again before its time: %+v", again)
	}
	c.pass(2 * time.Second)
	second := receive(t, q, "q", 10)
	if len(second) != 1 || second[0].Receives != 2 {
		t.Fatalf("after its time: %+v", second)
	}
	for _, use := range []error{
		q.Delete(t.Context(), "q", first[0].Receipt), q.Delay(t.Context(), "q", first[0].Receipt, 0),
		q.Move(t.Context(), "q", first[0].Receipt, "other", message("2", "g")),
		q.Delete(t.Context(), "q", "no receipt"), q.Delete(t.Context(), "other", second[0].Receipt),
	} {
		if !errors.Is(use, ErrReceipt) {
			t.Errorf("a receipt of before: %v", use)
		}
	}
	if err := q.Delay(t.Context(), "q", second[0].Receipt, 0); err != nil {
		t.Fatal(err)
	}
	third := receive(t, q, "q", 10)
	if len(third) != 1 {
		t.Fatal("a message that was given back does not come")
	}
	if err := q.Delete(t.Context(), "q", third[0].Receipt); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(t.Context(), "q", third[0].Receipt); !errors.Is(err, ErrReceipt) {
		t.Errorf("deleted twice: %v", err)
	}
	c.pass(time.Hour)
	if got := receive(t, q, "q", 10); len(got) > 0 {
		t.Errorf("delivered after its end: %+v", got)
	}
}

// TestFair: a tenant with few jobs is served next to one with a thousand, and those of one tenant in order.
func TestFair(t *testing.T) {
	q, _ := fresh(t)
	for i := range 200 {
		send(t, q, "q", message(fmt.Sprint("loud-", i), "loud"))
	}
	send(t, q, "q", message("small-0", "small"), message("tiny-0", "tiny"), message("small-1", "small"))
	if got, want := ids(receive(t, q, "q", 6)), []string{"loud-0", "small-0", "tiny-0", "loud-1", "small-1", "loud-2"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
	// Three of the loud one are under way: a newcomer comes before it.
	send(t, q, "q", message("new", "newcomer"))
	if got := ids(receive(t, q, "q", 1)); !slices.Equal(got, []string{"new"}) {
		t.Errorf("delivered %q before the newcomer's", got)
	}
	if got := ids(receive(t, q, "q", 2)); !slices.Equal(got, []string{"loud-3", "loud-4"}) {
		t.Errorf("then %q", got)
	}
}

func TestDeadAfterMaxReceive(t *testing.T) {
	q, c := fresh(t)
	send(t, q, "q", message("bad", "g"), message("good", "h"))
	for i := range 3 {
		if got := ids(receive(t, q, "q", 10)); len(got) != 2 {
			t.Fatalf("delivery %d: %q", i+1, got)
		}
		c.pass(2 * time.Minute)
	}
	send(t, q, "q", message("later", "g"))
	if got := ids(receive(t, q, "q", 10)); !slices.Equal(got, []string{"later"}) {
		t.Errorf("after three deliveries: %q", got)
	}
	if s := q.Stats("q"); s.Dead != 2 || s.Served != 1 || s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestMovedWhole(t *testing.T) {
	q, c := fresh(t)
	send(t, q, "a", message("1", "g"))
	d := receive(t, q, "a", 1)
	if err := q.Move(t.Context(), "a", d[0].Receipt, "b", Message{ID: "1", Group: "h", Body: []byte("moved")}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	if got := receive(t, q, "a", 1); len(got) > 0 {
		t.Errorf("still there: %+v", got)
	}
	if got := receive(t, q, "b", 1); len(got) != 1 || string(got[0].Body) != "moved" || got[0].Receives != 1 {
		t.Errorf("delivered %+v", got)
	}
	// Many at once with one receipt: one of them moves it.
	send(t, q, "a", message("2", "g"))
	d = receive(t, q, "a", 1)
	var moved sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		moved.Go(func() { errs[i] = q.Move(context.Background(), "a", d[0].Receipt, "c", message("2", "g")) })
	}
	moved.Wait()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		} else if !errors.Is(err, ErrReceipt) {
			t.Error(err)
		}
	}
	if got := receive(t, q, "c", 10); n != 1 || len(got) != 1 {
		t.Errorf("moved %d times, delivered %d times", n, len(got))
	}
}

func TestReceiveWaits(t *testing.T) {
	q, err := Create(filepath.Join(t.TempDir(), "queues.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := make(chan []Delivery, 1)
	go func() {
		d, err := q.Receive(context.Background(), Receive{Queue: "q", Max: 1, Hidden: 50 * time.Millisecond, MaxReceive: 3, Wait: MaxWait})
		if err != nil {
			t.Error(err)
		}
		got <- d
	}()
	send(t, q, "q", message("1", "g"))
	if d := <-got; len(d) != 1 {
		t.Fatalf("delivered %+v", d)
	}
	// It is waited for until its time is over, too.
	if d, err := q.Receive(t.Context(), Receive{Queue: "q", Max: 1, Hidden: time.Minute, MaxReceive: 3, Wait: MaxWait}); err != nil || len(d) != 1 || d[0].Receives != 2 {
		t.Errorf("delivered %+v, %v", d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := q.Receive(ctx, Receive{Queue: "q", Max: 1, Hidden: time.Minute, MaxReceive: 3, Wait: MaxWait}); !errors.Is(err, context.Canceled) {
		t.Errorf("left: %v", err)
	}
}

// TestAReceiverThatLeft: what is not delivered to somebody is delivered to the next one.
func TestAReceiverThatLeft(t *testing.T) {
	q, _ := fresh(t)
	send(t, q, "q", message("1", "g"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Receive(ctx, Receive{Queue: "q", Max: 1, Hidden: time.Minute, MaxReceive: 3}); err == nil {
		t.Fatal("delivered to nobody")
	}
	if got := receive(t, q, "q", 1); len(got) != 1 || got[0].Receives != 1 {
		t.Errorf("delivered %+v", got)
	}
}

func TestOverHTTP(t *testing.T) {
	q, _ := fresh(t)
	server := httptest.NewServer(loopback.Require(Handler(q), "secret"))
	defer server.Close()
	c := NewClient(server.URL, "secret")
	for _, id := range []string{"1", "2"} {
		if err := c.Send(t.Context(), "eu-1/s01", message(id, "g")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Receive(t.Context(), Receive{Queue: "eu-1/s01", Max: 10, Hidden: time.Minute, MaxReceive: 3})
	if err != nil || len(got) != 2 || string(got[0].Body) != "body of 1" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := errors.Join(
		c.Delete(t.Context(), "eu-1/s01", got[0].Receipt),
		c.Delay(t.Context(), "eu-1/s01", got[1].Receipt, time.Second),
		c.Move(t.Context(), "eu-1/s01", got[1].Receipt, "eu-1", message("2", "g")),
	); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Stats(t.Context(), "eu-1"); err != nil || s.Waiting != 1 {
		t.Errorf("stats %+v, %v", s, err)
	}
	if all, err := c.All(t.Context()); err != nil || len(all) != 1 || all["eu-1"].Waiting != 1 {
		t.Errorf("all %+v, %v", all, err)
	}
	for want, err := range map[int]error{
		409: c.Delete(t.Context(), "eu-1/s01", got[0].Receipt),
		400: c.Send(t.Context(), "", message("1", "g")),
		401: NewClient(server.URL, "guess").Send(t.Context(), "q", message("1", "g")),
	} {
		if refused, ok := errors.AsType[*loopback.StatusError](err); !ok || refused.Status != want {
			t.Errorf("want status %d: %v", want, err)
		}
	}
}

func TestInvalid(t *testing.T) {
	q, _ := fresh(t)
	long := strings.Repeat("x", MaxName+1)
	for _, err := range []error{
		q.Send(t.Context(), "", message("1", "g")), q.Send(t.Context(), long, message("1", "g")),
		q.Send(t.Context(), "q", message("", "g")), q.Send(t.Context(), "q", message("1", "")),
		q.Send(t.Context(), "q", Message{ID: "1", Group: "g", Body: make([]byte, MaxBody+1)}),
		q.Delay(t.Context(), "q", "1-1", MaxHidden+1), q.Move(t.Context(), "q", "1-1", "", message("1", "g")),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("error %v", err)
		}
	}
	for _, r := range []Receive{
		{Queue: "", Max: 1, Hidden: 1, MaxReceive: 1}, {Queue: "q", Max: 0, Hidden: 1, MaxReceive: 1}, {Queue: "q", Max: 11, Hidden: 1, MaxReceive: 1},
		{Queue: "q", Max: 1, Hidden: 0, MaxReceive: 1}, {Queue: "q", Max: 1, Hidden: 1, MaxReceive: 0}, {Queue: "q", Max: 1, Hidden: 1, MaxReceive: 1, Wait: MaxWait + 1},
	} {
		if _, err := q.Receive(t.Context(), r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestConcurrent: many senders and receivers at once, and every message is done once.
func TestConcurrent(t *testing.T) {
	q, err := Create(filepath.Join(t.TempDir(), "queues.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	const senders, each = 8, 25
	var mu sync.Mutex
	done := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var receivers, all sync.WaitGroup
	for range 4 {
		receivers.Go(func() {
			for {
				got, err := q.Receive(ctx, Receive{Queue: "q", Max: 10, Hidden: time.Hour, MaxReceive: 3, Wait: MaxWait})
				if err != nil {
					return
				}
				for _, d := range got {
					if err := q.Delete(t.Context(), "q", d.Receipt); err != nil {
						t.Error(err)
					}
					mu.Lock()
					done[d.ID]++
					if len(done) == senders*each {
						cancel()
					}
					mu.Unlock()
				}
			}
		})
	}
	for s := range senders {
		all.Go(func() {
			for i := range each {
				if err := q.Send(t.Context(), "q", message(fmt.Sprint(s, "-", i), fmt.Sprint(s))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	receivers.Wait()
	for id, n := range done {
		if n != 1 {
			t.Errorf("message %s was done %d times", id, n)
		}
	}
	if s := q.Stats("q"); s != (Stats{}) {
		t.Errorf("left: %+v", s)
	}
}
