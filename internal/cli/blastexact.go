package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/blast"
)

// exactFlags are what blast exact is asked.
type exactFlags struct {
	shards, perTenant, failed, tenants int
	misbehaving, zones                 []int
	maxShared, fanout                  int
	slow                               float64
	spread, asJSON                     bool
}

func blastExact(a *app) *cobra.Command {
	var f exactFlags
	cmd := &cobra.Command{
		Use:   "exact --shards N --per-tenant K",
		Short: "Calculate what a placement at random does, without tenants",
		Long: `Calculate what holds for tenants whose subsets are drawn at random, k of n shards, in closed form: how many
shards two of them share, what a number of failed shards does, how likely misbehaving tenants cover another's
whole subset, when two tenants have the same one, and how many tenants bounded/v1 could place.

Without --spread any k shards are as likely as any other, as under hmac/v1 and in one zone. With --spread
subsets are those of rendezvous/v1 over the zones of --zone-shards, with equal weights. bounded/v1 promises
more than any of this: see --max-shared.

--fanout asks how often a request that waits for as many shards meets a slow one.`,
		Example: `  cellwall blast exact --shards 2048 --per-tenant 4 --failed-count 2 --max-shared 2
  cellwall blast exact --shards 64 --per-tenant 8 --misbehaving 1,4,16
  cellwall blast exact --shards 12 --per-tenant 3 --zone-shards 4,4,4 --spread
  cellwall blast exact --shards 50 --per-tenant 50 --fanout 50`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"shards", "per-tenant"} {
				if !cmd.Flags().Changed(name) {
					return hint(usagef("--%s must be given", name), "see %s --help", cmd.CommandPath())
				}
			}
			if f.spread && len(f.zones) == 0 {
				return hint(usagef("--spread is over zones, and there are none"), "give their shards with --zone-shards, as 6,5,5")
			}
			r, err := f.calculate(cmd)
			if err != nil {
				return usagef("%w", err)
			}
			if f.asJSON {
				return json.NewEncoder(a.out).Encode(r)
			}
			t := &planText{bars: barsFor(a.out)}
			r.print(t)
			return t.writeTo(a.out)
		},
	}
	flags := cmd.Flags()
	intVar(flags, &f.shards, "shards", 0, fmt.Sprintf("number of shards, 1 to %d", blast.MaxShards))
	intVar(flags, &f.perTenant, "per-tenant", 0, "shards for each tenant")
	intVar(flags, &f.failed, "failed-count", 1, "shards that fail together")
	intsVar(flags, &f.misbehaving, "misbehaving", []int{1, 4, 16}, "tenants that misbehave together")
	intVar(flags, &f.tenants, "tenants", 0, "number of tenants, for the chance that two have the same subset")
	intsVar(flags, &f.zones, "zone-shards", nil, "shards in each zone, as 6,5,5: the chance that a subset is in one of them")
	flags.BoolVar(&f.spread, "spread", false, "subsets are spread over the zones of --zone-shards, as rendezvous/v1 does it with equal weights: all figures are of such")
	intVar(flags, &f.maxShared, "max-shared", 0, "shards that two tenants may share, for the number of tenants that have room")
	intVar(flags, &f.fanout, "fanout", 0, "shards that a request asks and waits for")
	floatVar(flags, &f.slow, "slow", 0.01, "chance that a shard's answer is slow")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// exactReport is the JSON form of blast exact. Chances and shares are from 0 to 1.
type exactReport struct {
	Shards      int            `json:"shards"`
	PerTenant   int            `json:"perTenant"`
	Zones       []int          `json:"zones,omitempty"`
	Spread      bool           `json:"spread"`  // over the zones; otherwise any k shards are as likely as any other
	Subsets     *big.Int       `json:"subsets"` // different ones; C(n,k) unless spread
	Even        bool           `json:"even"`    // any subset is as likely as another; otherwise birthday and anyIdentical are close, not exact
	Overlap     []float64      `json:"overlap"` // chance that two tenants share exactly 0, 1, … shards
	MeanOverlap float64        `json:"meanOverlap"`
	Failed      int            `json:"failed"`
	FullyDown   float64        `json:"fullyDown"`
	Degraded    float64        `json:"degraded"`
	Untouched   float64        `json:"untouched"`
	Lost        []float64      `json:"lost"` // chance that a tenant lost exactly 0, 1, … shards
	Covered     []exactCovered `json:"covered"`
	Same        float64        `json:"identical"` // chance that two tenants have the same subset
	Birthday    *float64       `json:"birthday"`  // tenants of which two have the same subset, more likely than not; null above 1.8e308
	Tenants     int            `json:"tenants,omitempty"`
	Identical   *float64       `json:"anyIdentical,omitempty"` // chance that two of the tenants have the same subset
	OneZone     *float64       `json:"allInOneZone,omitempty"`
	Room        *exactRoom     `json:"room,omitempty"`
	Fanout      *exactFanout   `json:"fanout,omitempty"`
}

type exactCovered struct {
	Misbehaving int     `json:"misbehaving"`
	Chance      float64 `json:"chance"`
}

// exactRoom is how many tenants have room when two share at most so many shards.
type exactRoom struct {
	MaxShared int      `json:"maxShared"`
	Field     int      `json:"field"`   // bounded/v1's q, 0: it cannot
	Bounded   *big.Int `json:"bounded"` // bounded/v1's slots
	Striped   *big.Int `json:"striped"` // no placement with a shard in each of k stripes has more
	Any       *big.Int `json:"any"`     // none at all has more
}

type exactFanout struct {
	Shards int     `json:"shards"`
	Slow   float64 `json:"slow"`   // of one shard
	Chance float64 `json:"chance"` // to meet one
	Tail   float64 `json:"tail"`   // chance that each shard may have, for the request to be slow as seldom as one shard was
}

func (f *exactFlags) calculate(cmd *cobra.Command) (*exactReport, error) {
	u, err := blast.NewUniform(f.shards, f.perTenant)
	if err != nil {
		return nil, err
	}
	if len(f.zones) > 0 {
		sum := 0
		for _, n := range f.zones {
			sum += n
		}
		if sum != f.shards {
			return nil, fmt.Errorf("--zone-shards has %d, and --shards is %d: the zones have all of the shards", sum, f.shards)
		}
	}
	r := &exactReport{
		Shards: f.shards, PerTenant: f.perTenant, Zones: f.zones, Spread: f.spread, Failed: f.failed, Covered: []exactCovered{},
	}
	expected, err := u.Fail(f.failed)
	if err != nil {
		return nil, fmt.Errorf("--failed-count: %w", err)
	}
	r.FullyDown, r.Degraded, r.Untouched = expected.FullyDown, expected.Degraded, expected.Untouched
	if r.Lost, err = u.Lost(f.failed); err != nil {
		return nil, err
	}
	if err := f.together(cmd, u, r); err != nil {
		return nil, err
	}
	return r, f.further(cmd, u, r)
}

// subsetModel is how subsets are drawn.
type subsetModel interface {
	Subsets() *big.Int
	Even() bool
	Identical() float64
	Overlap() ([]float64, error)
	Covered(misbehaving int) (float64, error)
	Birthday(chance float64) (float64, error)
	AnyIdentical(tenants int) (float64, error)
}

// anySubset draws any k shards as likely as any other.
type anySubset struct{ blast.Uniform }

func (anySubset) Even() bool                    { return true }
func (a anySubset) Overlap() ([]float64, error) { return a.Uniform.Overlap(), nil }

// together is what tenants have to do with each other, by the model that is asked for.
func (f *exactFlags) together(cmd *cobra.Command, u blast.Uniform, r *exactReport) error {
	model := subsetModel(anySubset{u})
	if f.spread {
		zoned, err := blast.NewZoned(f.zones, f.perTenant)
		if err != nil {
			return fmt.Errorf("--zone-shards: %w", err)
		}
		model = zoned
	}
	r.Subsets, r.Even, r.Same = model.Subsets(), model.Even(), model.Identical()
	var err error
	if r.Overlap, err = model.Overlap(); err != nil {
		return err
	}
	if r.MeanOverlap = u.MeanOverlap(); f.spread {
		r.MeanOverlap = 0
		for i, p := range r.Overlap {
			r.MeanOverlap += float64(i) * p
		}
	}
	misbehaving := f.misbehaving
	if f.perTenant > blast.MaxCovered && !cmd.Flags().Changed("misbehaving") {
		misbehaving = nil // which is too much work, and was not asked for
	}
	for _, e := range misbehaving {
		chance, err := model.Covered(e)
		if errors.Is(err, blast.ErrModel) && f.spread && !cmd.Flags().Changed("misbehaving") {
			break
		}
		if err != nil {
			return fmt.Errorf("--misbehaving: %w", err)
		}
		r.Covered = append(r.Covered, exactCovered{e, chance})
	}
	birthday, err := model.Birthday(0.5)
	if err != nil {
		return err
	}
	if !math.IsInf(birthday, 1) {
		r.Birthday = &birthday
	}
	if cmd.Flags().Changed("tenants") {
		chance, err := model.AnyIdentical(f.tenants)
		if err != nil {
			return fmt.Errorf("--tenants: %w", err)
		}
		r.Tenants, r.Identical = f.tenants, &chance
	}
	return nil
}

// further is what is asked by flags of its own.
func (f *exactFlags) further(cmd *cobra.Command, u blast.Uniform, r *exactReport) error {
	given := cmd.Flags().Changed
	if given("zone-shards") {
		chance, err := blast.AllInOneZone(f.zones, f.perTenant, f.spread)
		if err != nil {
			return fmt.Errorf("--zone-shards: %w", err)
		}
		r.OneZone = &chance
	}
	if given("max-shared") {
		room, err := u.Capacity(f.maxShared)
		if err != nil {
			return fmt.Errorf("--max-shared: %w", err)
		}
		r.Room = &exactRoom{f.maxShared, room.Field, room.Places, room.Striped, room.Any}
	}
	if given("fanout") {
		if f.fanout > f.shards {
			return fmt.Errorf("--fanout is %d, and there are %s: a request waits for as many as there are at most", f.fanout, count(f.shards, "shard"))
		}
		chance, err := blast.ScatterSlow(f.fanout, f.slow)
		if err != nil {
			return fmt.Errorf("--fanout: %w", err)
		}
		tail, err := blast.ScatterTail(f.fanout, f.slow)
		if err != nil {
			return fmt.Errorf("--fanout: %w", err)
		}
		r.Fanout = &exactFanout{f.fanout, f.slow, chance, tail}
	}
	return nil
}

func (r *exactReport) print(t *planText) {
	spread := "drawn from all"
	if r.Spread {
		spread = fmt.Sprintf("spread over zones of %s shards", joinInts(r.Zones, ", "))
	}
	t.line("%d of %d shards for each tenant, %s; %s different subsets", r.PerTenant, r.Shards, spread, r.Subsets)
	t.heading("Two tenants share %.4g shards, expected", r.MeanOverlap)
	t.distribution(r.Overlap, "share")
	t.heading("When %d of %d shards fail: fully down %s, degraded %s, untouched %s", r.Failed, r.Shards, exactText(r.FullyDown), exactText(r.Degraded), exactText(r.Untouched))
	t.distribution(r.Lost, "lost")
	if len(r.Covered) > 0 {
		t.heading("Chance that misbehaving tenants cover another's whole subset")
	}
	t.table(func(line func(string, ...any)) {
		for _, c := range r.Covered {
			line("%d\t%s\t%s", c.Misbehaving, exactText(c.Chance), t.bars.bar(c.Chance))
		}
	})
	about := ""
	if !r.Even {
		about = "about "
	}
	t.heading("From %s%s tenants on two have the same subset, more likely than not; any two have it with a chance of %s", about, birthdayText(r.Birthday), exactText(r.Same))
	if r.Identical != nil {
		t.line("  of %s two have the same with a chance of %s", tenantsText(r.Tenants), exactText(*r.Identical))
	}
	if r.OneZone != nil {
		t.line("  all shards of a tenant are in one zone with a chance of %s", exactText(*r.OneZone))
	}
	if room := r.Room; room != nil {
		t.heading("Tenants of which no two share more than %d shards", room.MaxShared)
		if room.Field == 0 {
			t.line("  bounded/v1 cannot place on %d shards with k = %d: it needs k stripes of q shards, q a prime power of at least k", r.Shards, r.PerTenant)
		} else {
			t.line("  bounded/v1 places %s, on %d stripes of %d", room.Bounded, r.PerTenant, room.Field)
			if used := r.PerTenant * room.Field; used < r.Shards {
				t.line("  it takes those %d shards, not %d: their number is to be that of the stripes times q", used, r.Shards)
			}
		}
		t.line("  no placement with one shard in each of %d stripes has room for more than %s, and none at all for more than %s", r.PerTenant, room.Striped, room.Any)
	}
	if f := r.Fanout; f != nil {
		t.heading("A request that waits for %d shards, each slow %s of the time", f.Shards, exactText(f.Slow))
		t.line("  is slow %s of the time; to be slow as seldom as one shard, each must be slow %s of the time", exactText(f.Chance), exactText(f.Tail))
	}
}

// exactText is a chance with five digits, as published tables have them.
func exactText(p float64) string {
	if p != 0 && p < 0.001 {
		return strconv.FormatFloat(p, 'e', 4, 64)
	}
	return strconv.FormatFloat(100*p, 'g', 5, 64) + " %"
}

// distribution draws the chances of 0, 1, … that are not negligible.
func (t *planText) distribution(chances []float64, what string) {
	t.table(func(line func(string, ...any)) {
		for i, p := range chances {
			if p > 1e-12 || len(chances) < 8 {
				line("%s %d\t%s\t%s", what, i, exactText(p), t.bars.bar(p))
			}
		}
	})
}
