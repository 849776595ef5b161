package localcell

import (
	"context"
	"fmt"
	"net/http"
	"runtime"

	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// adminVitals is where the operator asks a router.
const adminVitals = "/v1/vitals"

// Vitals are what a process holds, as its operator asks: what only grows is a leak.
type Vitals struct {
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"` // bytes in use, after a garbage collection
}

// vitals answers with those of this process.
func vitals(secret string) http.Handler {
	return loopback.Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		runtime.GC() // what the first made ready for finalizers and pools let go
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		loopback.Answer(w, http.StatusOK, Vitals{runtime.NumGoroutine(), m.HeapAlloc})
	}), secret)
}

// Vitals asks the routers, and the front door where there is one, for theirs, by the names of the processes.
func (r *Running) Vitals(ctx context.Context) (map[string]Vitals, error) {
	type at struct{ base, path string }
	processes := map[string]at{}
	if len(r.Cells) == 0 {
		processes[nameRouter] = at{r.Admin, adminVitals}
	}
	for _, c := range r.Cells {
		processes[c.Cell+"/"+nameRouter] = at{c.Admin, adminVitals}
	}
	if r.FrontDoor != "" {
		processes[nameFrontDoor] = at{r.FrontDoor, frontDoorVitals}
	}
	all := map[string]Vitals{}
	for name, p := range processes {
		var v Vitals
		client := loopback.NewClient(p.base, r.Secret)
		err := client.Do(ctx, http.MethodGet, p.path, nil, &v)
		client.CloseIdle() // who asks often leaves no connections for the next one to count
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = v
	}
	return all, nil
}
