package cli

import "github.com/spf13/cobra"

func rolloutCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Plan the waves in which a change is to reach the cells",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(rolloutPlan(a))
	return cmd
}
