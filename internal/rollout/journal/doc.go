// Package journal keeps the rollouts of services in a directory's home: who drives them, what happened, how they stand,
// and what is wished of them. One implementation serves every home: memory, a file, a local cell's store, DynamoDB.
//
//	s := journal.New(home)                        // run.Leases, run.Journal, run.Histories, run.Wishes
//	l, err := s.Take(ctx, service, holder, now, ttl)
//	err = s.Append(ctx, l, run.Record{…})         // one conditional batch
//
// # Records
//
//	SERVICE#<service>        LEASE              the latest lease, and which rollout is the latest
//	SERVICE#<service>        ROLLOUT#<number>   the id of each rollout; numbers go down, so that the newest comes first
//	ROLLOUT#<service>#<id>   STATE              how the rollout stands; its version is the number of its last transition
//	ROLLOUT#<service>#<id>   EVENT#<number>     what happened in that transition, from 1
//	ROLLOUT#<service>#<id>   WISHES             what nobody has answered yet
//
// None of their families is announced, listed, exported or served to routers. A state is compressed: one of 200 cells
// with 5 stages takes less than a sixth of what a record may take, even when every stage ran something else before. A
// transition writes the state anew, and its event once.
//
// # Clocks
//
// Times come from the caller. A lease runs out by the clock of whoever looks at it: one whose clock is ahead takes it
// early, and one whose clock is behind waits longer than it needs to. Neither harms: the taker's fencing number is higher,
// and from that moment on nothing that is done under the old lease is written. What the old holder does elsewhere
// is not stopped by that, which is why it keeps the lease immediately before each change. A holder whose own clock jumps
// ahead by more than the time to live finds its lease run out, and has to take it again.
//
// # Guarantees
//
// Each is held by the test of the same name in package journaltest, on every home; 6 and 7 by one, a crash at every write.
//
//  1. OneHolder: of all who take a service's lease at one time, one gets it.
//  2. NumbersRise: each lease of a service has a higher fencing number than all before it, whatever became of them.
//  3. LatestWrites: a record is written only while the lease under which it comes is the latest and was not given back.
//  4. Gapless: the transitions of a rollout are numbered from 1, each is there once, and the state is that of the last.
//  5. OneAtATime: a rollout begins only when the service's latest is over, and only the latest goes on.
//  6. Repeatable: a call whose answer was lost may be made again, and has happened once. A wish that was answered
//     meanwhile does not come again, for as long as fewer than 64 others of that rollout were answered.
//  7. Whole: a transition's event, state and place in the list become visible together, also after a crash.
//  8. Damaged: a record that is not as it was written is an error and never a guess.
//  9. Bounded: what is too long is refused before anything is written.
package journal
