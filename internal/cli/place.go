package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/placement"
)

func placeCommand(a *app) *cobra.Command {
	var p placing
	var file string
	var slot int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "place --scheme S --shards N --per-tenant K (--key-file FILE | --key-hex HEX) [TENANT... | --tenants-file F]",
		Short: "Print the shards that tenants are placed on",
		Long: `Print the subset of each tenant: the shards that serve it, the most preferred first, by their index
from 0. Under rendezvous/v1 the shard with index i has the id that a cell with a count of shards gives
it: s01, s02 and so on. bounded/v1 places by slot: without a directory the tenants of the list take the
slots from 1 on, or from --slot, in its order.

A tenants file has one tenant a line, or is CSV with the header tenant,load; - is standard input. An id has
1 to 4096 bytes of UTF-8, although a cell's directory takes no more than 128. All of the file is checked before the first line is printed. With --json each line is an object.

--scheme, --shards, --per-tenant and a key must be given: another value of any of them gives other subsets.
So do other --zones, except under hmac/v1, which reads no zones, and other --weights.`,
		Example: `  cellwall place --scheme hmac/v1 --shards 7 --per-tenant 2 --key-hex 73687566666c652d73686172642d7631 acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			subsets, err := p.subsets(cmd, a.err)
			if err != nil {
				return err
			}
			tenants, err := a.tenantsOf(cmd, args, file)
			if err != nil {
				return err
			}
			tenants.noteLong(a.err)
			if slot < 1 {
				return usagef("--slot is %d: slots are numbered from 1", slot)
			}
			return printSubsets(a.out, tenants.tenants, slot, subsets, asJSON)
		},
	}
	p.register(cmd)
	cmd.Flags().StringVar(&file, "tenants-file", "", "file of tenants, - for standard input")
	intVar(cmd.Flags(), &slot, "slot", 1, "slot of the first tenant, under bounded/v1")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// tenantsOf is the population of the arguments or of the file, whichever is given.
func (a *app) tenantsOf(cmd *cobra.Command, args []string, file string) (*population, error) {
	switch fromFile := cmd.Flags().Changed("tenants-file"); {
	case fromFile && len(args) > 0:
		return nil, usagef("tenants are named as arguments and in --tenants-file: use one of them")
	case fromFile:
		return a.filePopulation(file, placementID)
	case len(args) == 0:
		return nil, hint(usagef("no tenant is named"), "name tenants as arguments, or give --tenants-file FILE")
	}
	return namedPopulation(args, placementID)
}

// numberedTenant is the tenant at index i of a list. Without a directory the slots are given out in the
// order of the list, the first to its first.
func numberedTenant(i, first int, id string) placement.Tenant {
	return placement.Tenant{ID: id, Slot: uint64(i) + uint64(first)}
}

// placeable refuses a list that is longer than there are slots, before anything is printed: its last tenant
// has the highest.
func placeable(tenants []string, first int, subsets placement.Subsets) error {
	if len(tenants) == 0 {
		return nil
	}
	last := len(tenants) - 1
	if _, err := subsets.Append(nil, numberedTenant(last, first, tenants[last])); err != nil {
		return usagef("tenant %s: %w", printable(tenants[last]), err)
	}
	return nil
}

// printSubsets writes one line for each tenant.
func printSubsets(w io.Writer, tenants []string, first int, subsets placement.Subsets, asJSON bool) error {
	if err := placeable(tenants, first, subsets); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	line := struct {
		Tenant string `json:"tenant"`
		Shards []int  `json:"shards"`
	}{Shards: make([]int, 0, subsets.PerTenant())}
	for i, tenant := range tenants {
		var err error
		line.Tenant = tenant
		if line.Shards, err = subsets.Append(line.Shards[:0], numberedTenant(i, first, tenant)); err != nil {
			return fmt.Errorf("tenant %s: %w", printable(tenant), err)
		}
		if asJSON {
			if err := encoder.Encode(line); err != nil {
				return fmt.Errorf("writing the subsets: %w", err)
			}
			continue
		}
		fmt.Fprint(out, printable(tenant), "\t", joinInts(line.Shards, " "), "\n")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the subsets: %w", err)
	}
	return nil
}

// printable is a tenant's id for people: quoted when it holds anything that a terminal would not
// show, or obey.
func printable(tenant string) string {
	if strings.HasPrefix(tenant, `"`) || strings.ContainsFunc(tenant, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(tenant)
	}
	return tenant
}

func joinInts(list []int, separator string) string {
	var b strings.Builder
	for i, n := range list {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
