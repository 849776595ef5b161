package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

// placing is the flags that say how tenants are placed when there is no fleet to ask.
type placing struct {
	scheme            string
	shards, perTenant int
	zones             []string
	weights           []int
	maxShared         int
	keyHex, keyFile   string
}

// register adds the flags. Those that every scheme reads have no defaults, because there is no value that
// would not silently give subsets that nobody asked for.
func (p *placing) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.scheme, "scheme", "", fmt.Sprintf("placement scheme, %s, %s or %s", placement.HMACv1, placement.RendezvousV1, placement.BoundedV1))
	intVar(flags, &p.shards, "shards", 0, fmt.Sprintf("number of shards, 1 to %d", placement.MaxShards))
	intVar(flags, &p.perTenant, "per-tenant", 0, "shards for each tenant, 1 to the number of shards")
	flags.StringSliceVar(&p.zones, "zones", nil, "zones, as a,b,c, that the shards are dealt to, as a fleet deals a count of them")
	intsVar(flags, &p.weights, "weights", nil, fmt.Sprintf("weight of each shard, as 1,1,2, under %s", placement.RendezvousV1))
	intVar(flags, &p.maxShared, "max-shared", 0, fmt.Sprintf("the most shards that two tenants share, under %s", placement.BoundedV1))
	flags.StringVar(&p.keyFile, "key-file", "", "file with the placement key in hexadecimal, at least 32 bytes, that only you can read")
	flags.StringVar(&p.keyHex, "key-hex", "", "placement key in hexadecimal, of any length, for test vectors and experiments only")
}

// subsets checks the flags. It warns on errw about a key that stands on a command line.
func (p *placing) subsets(cmd *cobra.Command, errw io.Writer) (placement.Subsets, error) {
	var none placement.Subsets
	var missing []string
	for _, name := range []string{"scheme", "shards", "per-tenant"} {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	hexGiven, fileGiven := cmd.Flags().Changed("key-hex"), cmd.Flags().Changed("key-file")
	if !hexGiven && !fileGiven {
		missing = append(missing, "a key (--key-file or --key-hex)")
	}
	switch {
	case len(missing) > 0:
		return none, hint(usagef("%s must be given", strings.Join(missing, ", ")),
			"no placement flag has a default, since each changes every subset; see %s --help", cmd.CommandPath())
	case hexGiven && fileGiven:
		return none, usagef("a key is given by --key-hex and by --key-file: use one of them")
	}
	scheme, err := placement.ParseScheme(p.scheme)
	if err != nil {
		return none, usagef("--scheme: %w", err)
	}
	shards, err := p.list(scheme)
	if err != nil {
		return none, err
	}
	key, err := p.key()
	if err != nil {
		return none, err
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
	if hexGiven {
		fmt.Fprintln(errw, "note: a key given by --key-hex stays in the shell's history and shows in the list of processes: use it for test vectors and experiments, never for a cell's own key")
	}
	return subsets, nil
}

// list is the shards, as a cell with a count of them has them.
func (p *placing) list(scheme placement.Scheme) ([]placement.Shard, error) {
	// Checked here too, before a list of that length is made.
	if p.shards < 1 || p.shards > placement.MaxShards {
		return nil, usagef("--shards: %w: %d, want 1 to %d", placement.ErrShardCount, p.shards, placement.MaxShards)
	}
	zones := p.zones
	if len(zones) == 0 {
		zones = []string{""}
	}
	seen := map[string]bool{}
	for _, zone := range zones {
		if seen[zone] || zone == "" && len(p.zones) > 0 {
			return nil, usagef("--zones %s: want names, each once, as a,b,c", strings.Join(p.zones, ","))
		}
		seen[zone] = true
	}
	if len(zones) > p.shards {
		return nil, usagef("--zones has %d: want at most the number of shards, %d", len(zones), p.shards)
	}
	shards := make([]placement.Shard, p.shards)
	for i := range shards {
		shards[i] = placement.Shard{ID: fleet.CountedShard(i), Zone: zones[i%len(zones)], Weight: 1}
	}
	if len(p.weights) == 0 {
		return shards, nil
	}
	if scheme != placement.RendezvousV1 {
		return nil, usagef("--weights: %s does not weigh shards", scheme)
	}
	if len(p.weights) != p.shards {
		return nil, usagef("--weights has %d: want one for each of %s", len(p.weights), count(p.shards, "shard"))
	}
	for i, weight := range p.weights {
		shards[i].Weight = weight // which placement checks
	}
	return shards, nil
}

// key is the key of the flags. No error shows any of it.
func (p *placing) key() ([]byte, error) {
	if p.keyFile != "" {
		file, err := readKeyFile(p.keyFile)
		if err != nil {
			return nil, err
		}
		return file.only()
	}
	key, err := hex.DecodeString(p.keyHex)
	if err != nil { // which is told without the key
		return nil, usagef("--key-hex is not hexadecimal: write an even number of digits 0-9, a-f")
	}
	return key, nil
}
