package cli

import (
	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
)

// auditBefore reads what is deployed, so that deploying over it is judged, too.
type auditBefore struct{ dir string }

func (p *auditBefore) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.dir, "before", "", "`DIR` with what is deployed, such as the cdk.out of the last deployment: what a deployment over it would break counts as well")
}

func (p *auditBefore) apply(_ *cobra.Command, in []audit.Variant, opt *audit.Options) error {
	if p.dir == "" {
		return nil
	}
	if len(in) > 1 {
		return hint(usagef("--before is what is deployed of one variant, and %d are named", len(in)), "audit each of them beside its own")
	}
	before, err := loadAssembly(p.dir)
	if err != nil {
		return err
	}
	opt.Before = before.Stacks
	return nil
}
