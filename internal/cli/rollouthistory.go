package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/show"
)

func rolloutHistory(a *app) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	limit := 50
	cmd := &cobra.Command{
		Use:   "history [ID]",
		Short: "List the rollouts, or every transition of one",
		Long: `List the rollouts of the service, the newest first, or, with an ID, every transition of that one as its journal
has it, the oldest first. With --json each is an object, a line each.`,
		Example: `  cellwall rollout history --directory aws
  cellwall rollout history --directory aws 20260728-090000-9f3a1c --json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usagef("--limit %d: want at least 1", limit)
			}
			ctx := cmd.Context()
			return f.with(ctx, func(d *rolloutDesk) error {
				if id := optionalID(args); id != "" {
					return f.transitions(ctx, d, id)
				}
				states, err := d.store.Rollouts(ctx, d.service, limit)
				if err != nil {
					return err
				}
				return f.list(states)
			})
		},
	}
	f.where(cmd)
	intVar(cmd.Flags(), &limit, "limit", limit, "how many rollouts are listed at most")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// rolloutLine is one line of the list.
type rolloutLine struct {
	Rollout   string         `json:"rollout"`
	Status    rollout.Status `json:"status"`
	Digest    string         `json:"digest"`
	Phase     rollout.Phase  `json:"phase"`
	Started   time.Time      `json:"started"`
	Updated   time.Time      `json:"updated"`
	CellsDone int            `json:"cellsDone"`
	Cells     int            `json:"cells"`
	Why       string         `json:"why,omitempty"`
}

func (f *rolloutFlags) list(states []rollout.State) error {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	if !f.asJSON && len(states) > 0 {
		fmt.Fprintln(w, "rollout\tstatus\tcells done\tbegun\tlast change\tdigest\twhy")
	}
	for _, s := range states {
		line := rolloutLine{s.Spec.ID, s.Status, s.Spec.Digest, s.Spec.Phase, s.Started, s.Updated, 0, len(s.Cells), s.Why}
		for _, c := range s.Cells {
			if c.Step == rollout.Done {
				line.CellsDone++
			}
		}
		if f.asJSON {
			if err := json.NewEncoder(f.out).Encode(line); err != nil {
				return fmt.Errorf("write the list: %w", err)
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%s\t%s\t%s\t%s\n", show.Clean(line.Rollout), show.Clean(string(line.Status)), line.CellsDone, line.Cells,
			stamp(line.Started), stamp(line.Updated), show.Digest(line.Digest), show.Clean(line.Why))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}

// transitions prints every event of a rollout.
func (f *rolloutFlags) transitions(ctx context.Context, d *rolloutDesk, id string) error {
	last, err := d.last(ctx, id)
	if err != nil {
		return f.explain(id, rollout.State{}, err)
	}
	p := f.newProgress(f.asJSON, f.rollouts.clock.Now)
	p.screen = nil
	replay := show.NewReplay(last.State)
	for replay.Seq() < last.Seq {
		records, err := d.store.Events(ctx, d.service, id, replay.Seq(), eventsAtOnce)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("the journal of rollout %s ends after record %d, and %d was written", id, replay.Seq(), last.Seq)
		}
		for _, r := range records {
			events, err := replay.Take(r)
			if err != nil {
				return hint(fmt.Errorf("rollout %s: %w", id, err), "another version of cellwall has written it; that one can read it")
			}
			p.tell(events)
			if p.failed != nil {
				return fmt.Errorf("write the events: %w", p.failed)
			}
		}
	}
	return nil
}

var _ run.Observer = (*progress)(nil)
