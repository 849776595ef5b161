package rollout

import "time"

// EventKind is what happened.
type EventKind string

const (
	Taken    EventKind = "taken"    // a lease was taken: Fencing is its number, By its holder
	Pause    EventKind = "pause"    // nothing new begins; what is under way is watched
	Resume   EventKind = "resume"   // goes on, with Despite added
	Abort    EventKind = "abort"    // the emergency brake: nothing is asked for any more
	Rollback EventKind = "rollback" // to what was before, of all that was executed
	Looked   EventKind = "looked"   // answers Look
	Read     EventKind = "read"     // answers AskRead
	Prepared EventKind = "prepared" // answers Prepare
	Executed EventKind = "executed" // answers Execute; says nothing of success
	Restored EventKind = "restored" // answers Restore; says nothing of success
)

// Event is something that happened, with the time at which it was seen. Kind, At and Fencing are of every event.
type Event struct {
	Kind    EventKind `json:"kind"`
	At      time.Time `json:"at"`
	Fencing uint64    `json:"fencing"`
	By      string    `json:"by,omitempty"`  // who wants it, of the first five kinds
	Why     string    `json:"why,omitempty"` // the reason given; of Read, which stacks are not as they should be
	Cell    string    `json:"cell,omitempty"`
	Stage   string    `json:"stage,omitempty"` // of Read, Prepared, Executed and Restored
	// Error is what went wrong while a command was performed. A Look with it is missing data, a Read with it is
	// Unknown, a Prepare with it halts; of Execute and Restore it is only told, since the stack is read next.
	Error       string       `json:"error,omitempty"`
	Stack       StackStatus  `json:"stack,omitempty"`    // of Read
	Digest      string       `json:"digest,omitempty"`   // of Read: "" when the stacks of the stage differ
	WentBack    string       `json:"wentBack,omitempty"` // of Read: by what its rolled-back stacks were; see Command
	Observation *Observation `json:"observation,omitempty"`
	Despite     []Despite    `json:"despite,omitempty"` // of Resume
	// Untouched says that the command was not begun and nothing was changed, since May said no when its turn came: of
	// Prepared, Executed and Restored. What the stage is, is read anew then.
	Untouched bool `json:"untouched,omitempty"`
	// Wish is the id of what somebody left for the holder, of Pause, Resume, Abort and Rollback. The latest one stays in
	// the state: a holder that died between journalling and taking it away does not make it be done twice.
	Wish string `json:"wish,omitempty"`
}

// Observation is what the gate of a cell shows. Alarms are named by their kind, which is equal in all cells.
type Observation struct {
	Requests  int64    `json:"requests"`            // since Command.Since
	Firing    []string `json:"firing,omitempty"`    // now
	Fired     []string `json:"fired,omitempty"`     // at any time since Command.From, whether they still do or not
	Missing   []string `json:"missing,omitempty"`   // alarms and metrics without data: inconclusive
	Elsewhere []string `json:"elsewhere,omitempty"` // that fire in most cells that the rollout has not reached
}

// StackStatus is the state of all stacks of a stage together: the worst of them.
type StackStatus string

const (
	Complete   StackStatus = "complete"    // CREATE_COMPLETE, UPDATE_COMPLETE
	RolledBack StackStatus = "rolled-back" // UPDATE_ROLLBACK_COMPLETE: settled, on the template before
	InProgress StackStatus = "in-progress" // any …_IN_PROGRESS
	Failed     StackStatus = "failed"      // any other …_FAILED, and ROLLBACK_COMPLETE
	Stuck      StackStatus = "stuck"       // UPDATE_ROLLBACK_FAILED
	Absent     StackStatus = "absent"      // there is none
	Unknown    StackStatus = "unknown"     // it could not be read
)

// CommandKind is what is to be done.
type CommandKind string

const (
	Look    CommandKind = "look"    // observe the gate of the cell
	AskRead CommandKind = "read"    // read status and digest of the stage's stacks
	Prepare CommandKind = "prepare" // make the change sets of the stage for Digest
	Execute CommandKind = "execute" // execute them; check the lease first
	Restore CommandKind = "restore" // bring the stage back to Digest; check the lease first
)

// Command is something to do. Doing it twice has no other effect than doing it once.
type Command struct {
	Kind    CommandKind `json:"kind"`
	Fencing uint64      `json:"fencing"`
	Cell    string      `json:"cell"`
	Stage   string      `json:"stage,omitempty"`
	Digest  string      `json:"digest,omitempty"`
	Since   time.Time   `json:"since,omitzero"` // of Look: requests count from here; zero before the cell is changed
	From    time.Time   `json:"from,omitzero"`  // of Look: alarms count from here; zero before the cell is changed
	// WentBack is of AskRead: what the read before the stage's change said. A stack that went back before that, and was not
	// changed since, is Complete and not RolledBack: it is no failure of this rollout.
	WentBack string `json:"wentBack,omitempty"`
}

func (c Command) same(o Command) bool {
	return c.Kind == o.Kind && c.Fencing == o.Fencing && c.Cell == o.Cell && c.Stage == o.Stage && c.Digest == o.Digest &&
		c.Since.Equal(o.Since) && c.From.Equal(o.From) && c.WentBack == o.WentBack
}
