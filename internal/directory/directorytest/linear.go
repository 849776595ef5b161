package directorytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"cellwall.dev/cellwall/internal/directory"
)

// call is one operation of a history: a read when expect is readCall, else a change of the entry with
// that epoch, a create when it is 0.
type call struct {
	tenant    string
	expect    int
	operation string
}

const readCall = -1

// answer is what came of it. A change that lost saw an epoch other than the one it expected.
type answer struct {
	epoch     uint64
	operation string
	lost      bool
}

// model is a tenant's entry as the contract has it: a register that is changed by compare-and-set.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return answer{} },
		Step: func(s, i, o any) (bool, any) {
			state, in, out := s.(answer), i.(call), o.(answer)
			switch {
			case in.expect == readCall:
				return out == state, state
			case out.lost:
				return state.epoch != uint64(in.expect), state
			case state.epoch != uint64(in.expect):
				return false, state
			}
			next := answer{epoch: state.epoch + 1, operation: in.operation}
			return out == next, next
		},
	}
}

// linearizable records what many clients do to few tenants over a bad line, and asks whether there is an
// order of these operations, each between its beginning and its end, that explains all answers.
func linearizable(t *testing.T, r rules) {
	const clients, calls, tenants = 16, 40, 4
	d, err := directory.Open(t.Context(), newFaulty(t, r.home))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	histories := make([][][]porcupine.Operation, clients)
	var wg sync.WaitGroup
	for client := range clients {
		histories[client] = make([][]porcupine.Operation, tenants)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 1))
			seen := make([]directory.Entry, tenants)
			for i := range calls {
				n := rng.IntN(tenants)
				tenant := fmt.Sprintf("tenant-%d", n)
				in := call{tenant: tenant, expect: readCall, operation: fmt.Sprintf("op-%d-%d", client, i)}
				if rng.IntN(3) > 0 {
					in.expect = int(seen[n].Epoch)
				}
				begin := time.Since(start).Nanoseconds()
				out, entry, err := perform(t, d, in, seen[n])
				end := time.Since(start).Nanoseconds()
				if err != nil {
					t.Errorf("client %d, %+v: %v", client, in, err)
					return
				}
				if entry.Epoch > 0 {
					seen[n] = entry
				}
				histories[client][n] = append(histories[client][n], porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end})
			}
		})
	}
	wg.Wait()
	for n := range tenants {
		var history []porcupine.Operation
		won := 0
		for client := range clients {
			history = append(history, histories[client][n]...)
		}
		for _, o := range history {
			if o.Input.(call).expect != readCall && !o.Output.(answer).lost {
				won++
			}
		}
		if won < 2 {
			t.Errorf("tenant %d changed only %d times: the history says nothing", n, won)
		}
		if !porcupine.CheckOperations(model(), history) {
			t.Errorf("no order explains the %d operations on tenant %d", len(history), n)
		}
	}
}

// perform does the call, as often as it takes to learn what came of it. After a change that lost, it
// returns nothing seen, so that the client must read.
func perform(t *testing.T, d *directory.Directory, in call, before directory.Entry) (answer, directory.Entry, error) {
	if in.expect == readCall {
		e, err := d.Get(t.Context(), in.tenant)
		if errors.Is(err, directory.ErrNotFound) {
			return answer{}, e, nil
		}
		return answer{epoch: e.Epoch, operation: e.Operation}, e, err
	}
	e, err := persist(func() (directory.Entry, error) {
		if in.expect == 0 {
			return d.Create(t.Context(), entry(in.tenant, directory.Active), change(in.operation))
		}
		return d.Replace(t.Context(), before, before, change(in.operation))
	})
	switch {
	case errors.Is(err, directory.ErrExists), errors.Is(err, directory.ErrStale):
		return answer{lost: true}, directory.Entry{}, nil
	case err != nil:
		return answer{}, e, err
	}
	return answer{epoch: e.Epoch, operation: e.Operation}, e, nil
}

// The checker must refuse a history that no order explains, or it proves nothing.
func checkerRefuses(t *testing.T) {
	op := func(client int, in call, out answer, begin, end int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end}
	}
	created := op(0, call{"t", 0, "a"}, answer{epoch: 1, operation: "a"}, 0, 10)
	for name, history := range map[string][]porcupine.Operation{
		"two winners": {
			created, op(0, call{"t", 1, "b"}, answer{epoch: 2, operation: "b"}, 20, 30), op(1, call{"t", 1, "c"}, answer{epoch: 2, operation: "c"}, 20, 30),
		},
		"an old read": {
			created, op(0, call{"t", 1, "b"}, answer{epoch: 2, operation: "b"}, 20, 30), op(1, call{"t", readCall, ""}, answer{epoch: 1, operation: "a"}, 31, 40),
		},
		"nobody wins": {created, op(0, call{"t", 1, "b"}, answer{lost: true}, 20, 30)},
	} {
		if porcupine.CheckOperations(model(), history) {
			t.Errorf("%s: the checker finds nothing", name)
		}
	}
	if !porcupine.CheckOperations(model(), []porcupine.Operation{created, op(1, call{"t", readCall, ""}, answer{}, 5, 15)}) {
		t.Error("the checker refuses a read beside the write")
	}
}
