package cli

import (
	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// auditMap says who is who in stacks that do not follow cellwall's tags, paths and names.
type auditMap struct {
	rules []string
	file  string
}

func (p *auditMap) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&p.rules, "shard", nil, "who is who: stack:REGEX, path:REGEX, tag:KEY[=REGEX], account:REGEX or region:REGEX with the groups cell, shard, service; may be given again")
	cmd.Flags().StringVar(&p.file, "map", "", "file of such rules, after those of --shard")
}

func (p *auditMap) apply(_ *cobra.Command, _ []audit.Variant, opt *audit.Options) error {
	for _, s := range p.rules {
		r, err := audit.ParseMapRule(s)
		if err != nil {
			return hint(usagef("--shard %s", err), `write for example --shard 'stack:orders-(?P<cell>[a-z0-9-]+)-shard-(?P<shard>\d+)'`)
		}
		opt.Mapping = append(opt.Mapping, r)
	}
	if p.file == "" {
		return nil
	}
	data, err := readSmall(p.file)
	if err != nil {
		return hint(usagef("--map: %w", err), "docs/audit.md has the form of a mapping file")
	}
	rules, err := assembly.ReadMapping(p.file, data)
	if err != nil {
		return hint(usagef("%s", err), "docs/audit.md has the form of a mapping file")
	}
	opt.Mapping = append(opt.Mapping, rules...)
	return nil
}
