package cli

import (
	"context"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/localcell"
)

// processes are the hidden commands that are the processes of a running cell.
func (l *local) processes() []*cobra.Command {
	plain := func(run func(context.Context, localcell.Dir) error) func(context.Context, localcell.Dir, string) error {
		return func(ctx context.Context, d localcell.Dir, _ string) error { return run(ctx, d) }
	}
	return []*cobra.Command{
		l.hidden("supervise", func(ctx context.Context, d localcell.Dir, _ string) error {
			self, err := self()
			if err != nil {
				return err
			}
			return localcell.Supervise(ctx, d, self)
		}),
		l.hidden("guard", func(ctx context.Context, _ localcell.Dir, _ string) error { return localcell.RunGuard(ctx, l.in) }),
		l.hidden("directory", plain(localcell.RunDirectory)),
		l.hidden("store", plain(localcell.RunStore)),
		l.hidden("issuer", plain(localcell.RunIssuer)),
		l.hidden("router", localcell.RunRouter),
		l.hidden("keeper", localcell.RunKeeper),
		l.hidden("frontdoor", plain(localcell.RunFrontDoor)),
		l.hidden("gate", plain(localcell.RunGate)),
	}
}

// hidden is a command that is a process of a running cell.
func (l *local) hidden(name string, run func(ctx context.Context, d localcell.Dir, of string) error) *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use:    name,
		Short:  "A process of a local cell; `cellwall local up` starts it",
		Hidden: true,
		Args:   exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := l.dir()
			if err != nil {
				return err
			}
			l.watches()
			return run(cmd.Context(), d, of)
		},
	}
	cmd.Flags().StringVar(&of, "of", "", "of which of several cells")
	return cmd
}
