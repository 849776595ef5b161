package localcell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"cellwall.dev/cellwall/internal/localcell/proc"
)

// RunGuard is the guard process: it leads the process group of the cell and kills it, itself included,
// when lifeline ends, which happens when the supervisor dies in whatever way. The number of the group
// cannot be given to others meanwhile, because its leader is alive.
func RunGuard(_ context.Context, lifeline io.Reader) error {
	if !proc.LeadsGroup() {
		// The group is that of a shell and whatever else runs in it.
		return errors.New("the guard does not lead its process group; `cellwall local up` starts it")
	}
	if _, err := io.Copy(io.Discard, lifeline); err != nil {
		return errors.Join(fmt.Errorf("the supervisor's pipe: %w", err), proc.KillGroup())
	}
	return proc.KillGroup()
}
