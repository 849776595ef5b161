package cli

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

func placeCommand(a *app) *cobra.Command {
	var p placing
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "place --scheme S --shards N --per-tenant K --key-hex HEX [TENANT... | --tenants-file F]",
		Short: "Print the shards that tenants are placed on",
		Long: `Print the subset of each tenant: the shards that serve it, the most preferred first, by their index
from 0. Under rendezvous/v1 the shard with index i has the id that a cell with a count of shards gives
it: s01, s02 and so on. bounded/v1 places by slot: without a directory the tenants of the list take the
slots from 1 on, in its order.

A tenants file has one tenant a line, or is CSV with the header tenant,load; - is standard input. An id has
1 to 4096 bytes of UTF-8, although a cell's directory takes no more than 128. All of the file is checked before the first line is printed. With --json each line is an object.

--scheme, --shards, --per-tenant and --key-hex must be given: another value of any of them gives other
subsets. So does another of --zones, except under hmac/v1, which reads no zones.`,
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
			return printSubsets(a.out, tenants.tenants, subsets, asJSON)
		},
	}
	p.register(cmd)
	cmd.Flags().StringVar(&file, "tenants-file", "", "file of tenants, - for standard input")
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

// placing is the flags that say how tenants are placed when there is no fleet to ask.
type placing struct {
	scheme            string
	shards, perTenant int
	zones, maxShared  int
	keyHex            string
}

// register adds the flags. The four that every scheme reads have no defaults, because there is no value that would not silently
// give subsets that nobody asked for.
func (p *placing) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.scheme, "scheme", "", fmt.Sprintf("placement scheme, %s, %s or %s", placement.HMACv1, placement.RendezvousV1, placement.BoundedV1))
	intVar(cmd.Flags(), &p.shards, "shards", 0, fmt.Sprintf("number of shards, 1 to %d", placement.MaxShards))
	intVar(cmd.Flags(), &p.perTenant, "per-tenant", 0, "shards for each tenant, 1 to the number of shards")
	intVar(cmd.Flags(), &p.zones, "zones", 1, "number of zones that the shards are dealt to, as a fleet deals a count of them")
	intVar(cmd.Flags(), &p.maxShared, "max-shared", 0, fmt.Sprintf("the most shards that two tenants share, under %s", placement.BoundedV1))
	cmd.Flags().StringVar(&p.keyHex, "key-hex", "", "placement key in hexadecimal, for test vectors and experiments only")
}

// subsets checks the flags. It warns on errw about a key that stands on a command line.
func (p *placing) subsets(cmd *cobra.Command, errw io.Writer) (placement.Subsets, error) {
	var none placement.Subsets
	var missing []string
	for _, name := range []string{"scheme", "shards", "per-tenant", "key-hex"} {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return none, hint(usagef("%s must be given", strings.Join(missing, ", ")),
			"no placement flag has a default, since each changes every subset; see %s --help", cmd.CommandPath())
	}
	scheme, err := placement.ParseScheme(p.scheme)
	if err != nil {
		return none, usagef("--scheme: %w", err)
	}
	// Checked here too, before a list of that length is made.
	if p.shards < 1 || p.shards > placement.MaxShards {
		return none, usagef("--shards: %w: %d, want 1 to %d", placement.ErrShardCount, p.shards, placement.MaxShards)
	}
	if p.zones < 1 || p.zones > p.shards {
		return none, usagef("--zones is %d: want 1 to the number of shards, %d", p.zones, p.shards)
	}
	key, err := hex.DecodeString(p.keyHex)
	if err != nil { // which is told without the key
		return none, usagef("--key-hex is not hexadecimal: write an even number of digits 0-9, a-f")
	}
	shards := make([]placement.Shard, p.shards)
	for i := range shards {
		shards[i] = placement.Shard{ID: fleet.CountedShard(i), Zone: strconv.Itoa(i % p.zones), Weight: 1}
	}
	placer, err := placement.New(placement.Config{Scheme: scheme, Key: key, Shards: shards, MaxShared: p.maxShared, MaxPerTenant: p.perTenant})
	if errors.Is(err, placement.ErrEmptyKey) {
		return none, usagef("--key-hex: %w", err)
	}
	if err != nil {
		return none, usagef("%w", err)
	}
	subsets, err := placer.PerTenant(p.perTenant)
	if err != nil {
		return none, usagef("--per-tenant: %w", err)
	}
	fmt.Fprintln(errw, "note: a key given by --key-hex stays in the shell's history and shows in the list of processes: use it for test vectors and experiments, never for a cell's own key")
	return subsets, nil
}

// numberedTenant is the tenant at index i of a list. Without a directory the slots are given out in the
// order of the list.
func numberedTenant(i int, id string) placement.Tenant {
	return placement.Tenant{ID: id, Slot: uint64(i) + 1}
}

// placeable refuses a list that is longer than there are slots, before anything is printed: its last tenant
// has the highest.
func placeable(tenants []string, subsets placement.Subsets) error {
	if len(tenants) == 0 {
		return nil
	}
	last := len(tenants) - 1
	if _, err := subsets.Append(nil, numberedTenant(last, tenants[last])); err != nil {
		return usagef("tenant %s: %w", printable(tenants[last]), err)
	}
	return nil
}

// printSubsets writes one line for each tenant.
func printSubsets(w io.Writer, tenants []string, subsets placement.Subsets, asJSON bool) error {
	if err := placeable(tenants, subsets); err != nil {
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
		if line.Shards, err = subsets.Append(line.Shards[:0], numberedTenant(i, tenant)); err != nil {
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
