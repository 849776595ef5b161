package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

func shardCommand(a *app) *cobra.Command {
	f := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "See whom a shard affects",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd)
	cmd.AddCommand(shardTenants(f))
	return cmd
}

func shardTenants(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tenants CELL/SHARD",
		Short: "List the tenants that a shard holds, and so whom it affects",
		Long: `List the tenants that a shard holds, by what its own store says, and so whom it affects when it fails. The
epoch is that since which it holds the tenant. With --json each line is an object. This is for operators, and that you
looked is kept in the record that tenant history --operator prints.`,
		Example: "  cellwall shard tenants eu-1/s07",
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cell, shard, ok := strings.Cut(args[0], "/")
			if !ok || cell == "" || shard == "" {
				return hint(usagef("%q is no shard: write CELL/SHARD, as eu-1/s07", args[0]), "cellwall cell headroom lists the cells, topology show CELL VERSION a cell's shards")
			}
			ctx := cmd.Context()
			return f.read(ctx, func(d *desk) error {
				if _, err := d.Cell(ctx, cell); err != nil {
					return err
				}
				known := false
				for t, err := range d.topologies(ctx, cell) {
					if err != nil {
						return err
					}
					for _, s := range t.Shards {
						known = known || s.ID == shard
					}
				}
				if !known {
					return hint(usagef("no topology of cell %q names shard %q", cell, shard), "cellwall topology show %s VERSION lists its shards", quote(cell))
				}
				if err := d.noteListing(ctx, "shard tenants", args[0]); err != nil {
					return err
				}
				out := bufio.NewWriter(f.out)
				lines := json.NewEncoder(out)
				lines.SetEscapeHTML(false)
				const page = 1000
				for after := ""; ; {
					list, err := d.holder.Holdings(ctx, cell, shard, after, page)
					if err != nil {
						return fmt.Errorf("ask shard %s: %w", args[0], err)
					}
					for _, h := range list {
						if err := printHolding(out, lines, h, asJSON); err != nil {
							return err
						}
						after = h.Tenant
					}
					if len(list) < page {
						return out.Flush()
					}
				}
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printHolding(out *bufio.Writer, lines *json.Encoder, h directory.Holding, asJSON bool) error {
	if asJSON {
		return lines.Encode(h)
	}
	_, err := fmt.Fprintf(out, "%s\t%d\n", shown(h.Tenant), h.Epoch)
	return err
}
