package cli

import "github.com/spf13/cobra"

func rolloutCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Bring a version to all cells in waves that stop by themselves",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(rolloutPlan(a), rolloutStatus(a), rolloutWatch(a), rolloutPause(a), rolloutResume(a), rolloutAbort(a),
		rolloutRollback(a), rolloutHistory(a))
	if a.rollouts.plan != nil {
		cmd.AddCommand(rolloutStart(a))
	}
	return cmd
}
