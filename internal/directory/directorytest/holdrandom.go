package directorytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// slowly is a holder on a bad line. By chance a request waits, its answer is lost, or it never arrives.
type slowly struct {
	directory.Holder
	chance func() int
}

func (s slowly) send(do func() error) error {
	switch p := s.chance(); {
	case p < 8:
		return errLost
	case p < 16:
		_ = do()
		return errLost
	case p < 50:
		time.Sleep(time.Duration(p) * 20 * time.Microsecond)
	}
	return do()
}

func (s slowly) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	return s.send(func() error { return s.Holder.Hold(ctx, cell, shard, h) })
}

func (s slowly) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	return s.send(func() error { return s.Holder.Release(ctx, cell, shard, h) })
}

// heldAtOnce has several residences change one tenant at once, over lines on which requests to the home and to the
// shards wait and get lost. Each change is repeated until its answer arrives. In the end nobody who was left takes a
// request, and after Reconcile the holdings are the subset.
func heldAtOnce(t *testing.T, home directory.Home, h directory.Holder) {
	const clients, calls = 6, 20
	s := newStage(t, home, h)
	enrolled(s)
	names := []string{"suspend", "resume", "pin 1 2", "pin 2 8", "pin 5 6", "unpin", "migrate 2", "migrate 3", "import", "import pinned"}
	var wg sync.WaitGroup
	for client := range clients {
		line := newFaulty(t, home)
		d, err := directory.Open(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		res := directory.NewResidence(d, slowly{h, line.chance}, keys)
		order := rand.New(rand.NewPCG(uint64(line.chance()), 1))
		wg.Go(func() {
			for call := range calls {
				d := deedsAs(fmt.Sprintf(" %d/%d", client, call), names[order.IntN(len(names))])[0]
				_, err := persist(func() (struct{}, error) { return struct{}{}, d.do(t.Context(), res) })
				if err != nil && !expected(err) {
					t.Errorf("%s: %v", d.name, err)
				}
			}
		})
	}
	wg.Wait()
	s.always()
	s.exact()
	s.settled()
	s.always()
}
