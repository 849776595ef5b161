// Package collectlater puts a function's first garbage collection off, while its packages are being initialised: those
// of the SDK allocate 4 MB, at which the runtime would collect in the middle of a cold start, and find nothing. It is
// imported for its effect. What it imports decides when it is initialised itself: early enough, as TestCollectsLater
// of lambda/router sees.
package collectlater

import (
	"runtime"
	"runtime/debug"
)

// lateCollection is the GC percentage until the first collection: that comes at 16 MB instead of 4.
const lateCollection = 400

func init() { collectLater() }

// collectLater puts the first garbage collection off until the heap has 16 MB, and has them come as usual from then
// on. Where the percentage was set by GOGC or otherwise, nothing changes.
func collectLater() {
	const usual = 100
	if was := debug.SetGCPercent(lateCollection); was != usual {
		debug.SetGCPercent(was)
		return
	}
	// Whole cache lines, so that it shares its memory with nothing that lives on.
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}
