package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/show"
)

func rolloutStatus(a *app) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "status [ID]",
		Short: "Show how a rollout stands, cell by cell",
		Long: `Show how a rollout stands: its cells by wave, what bakes and for how long, why it waits, and who drives it. It
reads the journal alone, and changes nothing. ID is the latest rollout unless it is given.

Exit status 0, however the rollout stands; 3 when there never was one.`,
		Example: `  cellwall rollout status --directory aws
  cellwall rollout status --directory aws --json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := optionalID(args)
			ctx := cmd.Context()
			return f.with(ctx, func(d *rolloutDesk) error {
				last, err := d.last(ctx, id)
				if err != nil {
					return f.explain(id, rollout.State{}, err)
				}
				lease, err := d.lease(ctx)
				if err != nil {
					return err
				}
				if err := f.summarise(last.State); err != nil {
					return err
				}
				now := f.rollouts.clock.Now()
				if f.asJSON {
					return f.json(show.NewReport(last.State, now, lease))
				}
				look, is := f.terminal(f.out)
				if !is {
					look = show.Look{Width: 120}
				}
				look.Height = statusLines
				view := show.View{State: last.State, Now: now, Lease: lease, Hint: f.nextUnder(last.State, lease)}
				for _, line := range view.Lines(look) {
					if _, err := fmt.Fprintln(f.out, line); err != nil {
						return fmt.Errorf("write the status: %w", err)
					}
				}
				return nil
			})
		},
	}
	f.where(cmd)
	f.summarises(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// statusLines are more than a rollout of a thousand cells takes.
const statusLines = 5000
