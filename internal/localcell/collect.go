package localcell

import (
	"os"
	"runtime/debug"
)

// How a router collects its garbage. What it remembers of its tenants lives long, and each request leaves some
// kilobytes: collected as soon as the heap has doubled, the marking of the former costs a tenth of the processor with
// 100,000 tenants, and requests wait for it. So the heap may grow to five times what lives, as long as the process
// stays within the memory that a million tenants are promised to fit in.
const (
	garbage    = 400 // percent of what lives
	routerHeap = 512 << 20
)

// collectLater has the process collect so, unless whoever started it says otherwise.
func collectLater() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(routerHeap)
	}
}
