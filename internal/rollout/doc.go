// Package rollout decides what a rollout does next. Next is a pure function over plain values: it performs nothing,
// reads no clock and draws no number, so that a loop on one machine and a state machine in AWS can both drive it.
//
//	s, err := rollout.New(spec, started)            // refuses what must not begin
//	s, commands, err := rollout.Next(s, event)      // journal s, then perform the commands, answer each by an event
//	commands = rollout.Due(s)                       // all that s waits for, when somebody else takes over
//
// # A rollout
//
//	           every cell done
//	running ───────────────────▶ done
//	 ▲   │ ╲                        │
//	 │   │  ╲ red, failed, unknown  │
//	 │   │   ╲                      │ rollback
//	 │   ▼    ▼                     ▼
//	paused ─▶ halted ─────────▶ rolling-back ─────▶ rolled-back
//	              ▲  rollback       │      every touched cell is back
//	              └─────────────────┘
//	                a cell is stuck
//
// running turns paused by pause, by missing data and by alarms for which the rollout is not to blame alone: those
// that fired before it, and those that fire in cells that it has not reached too. Resume leads back. A halt is for
// good: there is no way from halted to running; another rollout of the same digest finds what is done. With
// Spec.Revert a halt goes on to rolling-back by itself. Rollback leads there from every other state but rolled-back, and abort to
// aborted, which asks for nothing at all and from which rollback leads on too.
//
// # A cell
//
//	waiting ─▶ looking ─▶ looked ─▶ reading ─▶ read ─▶ preparing ─▶ prepared ─▶ executing ─▶ settling ─▶ proving ─▶ baking ─▶ done
//	                                   ▲ │                                                                 ▲   │
//	                                   │ └───── complete and ours already ─────────────────────────────────┘   │
//	                                   └──────────────────────── the cell's next stage ────────────────────────┘
//
// A halt for a cell's stack leaves it failed. Nobody but Next moves a cell from looked, read or prepared, and only
// while the rollout runs. A looked cell is looked at until its turn comes, and goes back to looking when something fires
// in it. One that was told to prepare or execute and may not begin any more, since the rollout was paused meanwhile, is
// read anew; and looked at anew, if nothing of it was ever changed. So is one that was read or prepared when a pause ends
// or somebody takes over: what a stage was before its change is what was read last, however long that took.
//
// On the way back, for the stages that were executed, the last first:
//
//	undo-reading ─▶ restoring ─▶ undo-settling ─▶ (the stage before) ─▶ undone, stays or stuck
//
// A cell that is executing or restoring waits for the answer first: what is under way and what undoes it never
// overlap. A cell stays when a stage of it did not exist before, or ran several digests.
//
// Whoever takes over says so by Taken, with the fencing number of the lease. What may or may not have been performed
// (preparing, prepared, executing, restoring) is read anew then.
//
// # The driver's part
//
// The driver journals a state before it performs its commands. It answers each Prepare, Execute and Restore exactly
// once, with Error when it failed, and with Untouched when it was not begun. Look and Read are repeated for as long as they
// are due; an answer that changes nothing need not be journalled. A look is of the time at which it began, and one that was
// begun for another Since or From is no answer. Immediately before the first change of Execute and Restore the driver
// prolongs its lease, which proves that it is the latest, and asks May.
//
// CloudFormation knows no fencing. A driver that stands still for a whole lease between that check and CloudFormation's
// acceptance executes a change set that was made for an older state, while another drives. A read after that finds it,
// since digests are compared and never believed; a stage that was read before it, and is not read again, does not.
//
// # Guarantees
//
// Each is held by the test of the same name; 1 to 7 over every order of answers, alarms, missing data, crashes, pauses,
// resumes, rollbacks and aborts, for 5 cells in 3 waves with one event of each sort, and with every event for fewer cells.
// Four and five cells at once, and every event for up to three cells that are not all at once, are what make soak goes through.
//
//  1. NothingAfterRed: once a gate was red or a stack failed, nothing is prepared or executed.
//  2. NoSkip: a cell is executed only after all cells of the waves and batches before it are done; a rollout is done
//     only when every cell is.
//  3. OnlyTouched: a stage is restored only if it was executed, to the digest that was read before that; and when
//     a rollout has been rolled back, each executed stage was read with that digest, or had none.
//  4. DoneIsProved: a cell is done only after each of its stages was read complete with the rollout's digest since
//     it was last executed, and its gate was green at the end of the bake.
//  5. Resumed: whoever takes over, at any moment, comes to the end with every cell done, if all goes well from there.
//  6. Despite: an alarm that fired before the wave lets it begin only with a Despite of that alarm and a reason; one
//     that fires for the first time afterwards halts, or pauses when cells that are not deployed have it too.
//     Nothing begins then until it is quiet or excused; while the rollout is paused it is not to blame for it.
//  7. NeverStuckSilently: a rollout that is not over has something due, waits for an answer, or says in Why who must act.
//  8. ContractLast: a contract does not begin while a cell runs a version that needs the old form, or is unknown.
//  9. Pure: equal arguments give equal results, arguments are not changed, and a state survives JSON as it is.
//  10. Fenced: an event of another lease than the latest changes nothing.
package rollout
