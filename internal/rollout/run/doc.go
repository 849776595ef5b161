// Package run drives a rollout: it performs what the engine of package rollout says is due, and journals what came of it.
//
//	d, err := run.New(run.Config{…})
//	s, err := d.Start(ctx, spec)            // until the rollout comes to rest
//	s, err := d.Resume(ctx, id, run.Wish{}) // takes over one that nobody drives any more
//	s, err := d.Apply(ctx, id, wish)        // takes over for one wish, and drives no further
//	s, err := d.Ask(ctx, id, wish)          // leaves the wish for the holder who drives
//
// A driver comes to rest when the rollout is over, or halted with nothing more to read. A paused one goes on looking.
//
// # The window that remains
//
// A lease is kept in the directory's store, and the change is made elsewhere. Between a granted permit and the moment at
// which the deploying service accepts the change, another holder may take over. It then reads a stage before the
// change begins, prepares its own, and is refused or overtaken. What it believes is only what it reads afterwards.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. JournalledFirst: a command is performed only after the state that asks for it is journalled.
//  2. AnsweredOnce: each Prepare, Execute and Restore is performed by one goroutine and answered once, also when its
//     port fails or panics.
//  3. Permitted: a stage is changed only when, immediately before, no wish lay there, the lease was kept, and
//     rollout.May said yes.
//  4. KilledAnywhere: killed before or after any call of a port, another driver brings every cell to the end, none
//     skipped, none executed twice for the same digest once its stack has it.
//  5. Zombie: a driver that wakes up after its lease was taken changes nothing, and ends with ErrLost.
//  6. WishesAreTaken: pause, resume, abort and rollback that are left for a driver are done once, in their order, and
//     one that makes no sense is taken away.
//  7. QuietLooks: looks and reads that change nothing are repeated at the interval and not journalled; those
//     that change something are a second apart at least.
//  8. Freed: a driver that is cancelled frees its lease only after its commands have ended; the rollout stays as it is.
//  9. JournalDown: while the journal cannot be written, nothing new begins; an append whose answer was lost is not
//     made twice.
//  10. SilentHolder: a holder who died is waited for no longer than a lease lasts, whatever his clock said, and whoever
//     waits is told so.
package run
