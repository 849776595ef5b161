package first

import (
	"runtime"
	"runtime/debug"
)

// lateCollection is the GC percentage until the first collection: that comes at 16 MB instead of 4.
const lateCollection = 400

// CollectLater puts the first garbage collection off until the heap has 16 MB, and has them come as usual from then
// on. A start allocates about 4 MB, at which the runtime would collect in the middle of it, and find nothing. Where
// the percentage was set by GOGC or otherwise, nothing changes.
func CollectLater() {
	const usual = 100
	if was := debug.SetGCPercent(lateCollection); was != usual {
		debug.SetGCPercent(was)
		return
	}
	// Whole cache lines, so that it shares its memory with nothing that lives on.
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}
