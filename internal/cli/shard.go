package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

func shardCommand(a *app) *cobra.Command {
	f := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "See whom a shard affects, and have routers choose it last",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd)
	cmd.AddCommand(shardTenants(f), shardDrain(f), shardUndrain(f), shardDrains(f))
	return cmd
}

func shardTenants(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tenants CELL/SHARD",
		Short: "List the tenants that a shard holds, and so whom it affects",
		Long: `List the tenants that a shard holds, by what its own store says, and so whom it affects when it fails. The
epoch is that since which it holds the tenant. A number stands for the id that a fleet with a count of shards gives:
eu-1/7 is eu-1/s07, unless a shard has the id 7. With --json each line is an object. This is for operators, and that
you looked is kept in the record that tenant history --operator prints.`,
		Example: "  cellwall shard tenants eu-1/s07",
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return f.read(ctx, func(d *desk) error {
				cell, shard, err := d.shard(ctx, args[0])
				if err != nil {
					return err
				}
				if err := d.noteListing(ctx, "shard tenants", cell+"/"+shard); err != nil {
					return err
				}
				out := bufio.NewWriter(f.out)
				lines := json.NewEncoder(out)
				lines.SetEscapeHTML(false)
				const page = 1000
				for after := ""; ; {
					list, err := d.holder.Holdings(ctx, cell, shard, after, page)
					if err != nil {
						return fmt.Errorf("ask shard %s/%s: %w", cell, shard, err)
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

// shard finds the shard that is named as CELL/SHARD or CELL/NUMBER, among those that topologies of the cell name.
func (d *desk) shard(ctx context.Context, named string) (cell, shard string, err error) {
	cell, shard, ok := strings.Cut(named, "/")
	if !ok || cell == "" || shard == "" {
		return "", "", hint(usagef("%q is no shard: write CELL/SHARD, as eu-1/s07", named), "cellwall cell headroom lists the cells, topology show CELL VERSION a cell's shards")
	}
	if _, err := d.Cell(ctx, cell); err != nil {
		return "", "", err
	}
	counted := numberedShard(shard)
	known, byNumber := false, false
	for t, err := range d.topologies(ctx, cell) {
		if err != nil {
			return "", "", err
		}
		for _, s := range t.Shards {
			known = known || s.ID == shard
			byNumber = byNumber || s.ID == counted
		}
	}
	switch {
	case known:
		return cell, shard, nil
	case byNumber:
		return cell, counted, nil
	}
	return "", "", hint(usagef("no topology of cell %q names shard %q", cell, shard), "cellwall topology show %s VERSION lists its shards", quote(cell))
}

// numberedShard is the id that a count of shards gives the shard of that number, "" when it is none.
func numberedShard(number string) string {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > placement.MaxShards {
		return ""
	}
	return fleet.CountedShard(n - 1)
}

func printHolding(out *bufio.Writer, lines *json.Encoder, h directory.Holding, asJSON bool) error {
	if asJSON {
		return lines.Encode(h)
	}
	_, err := fmt.Fprintf(out, "%s\t%d\n", shown(h.Tenant), h.Epoch)
	return err
}
