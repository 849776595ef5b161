package cli

import "cellwall.dev/cellwall/internal/blast"

// planReport is the answer of plan, and its JSON form. Shares are from 0 to 1, loads in requests per second,
// shards by id. Keys stay as they are; further ones may come.
type planReport struct {
	Fleet   string     `json:"fleet"`   // the service
	Kept    bool       `json:"kept"`    // every budget is
	Key     string     `json:"key"`     // whose placed the tenants: cell, file or example
	Assumed []string   `json:"assumed"` // what neither the fleet nor the tenants say
	Cells   []planned  `json:"cells"`
	Waves   []planWave `json:"waves"`
}

// planWave is what a bad release reaches, wave by wave.
type planWave struct {
	Cells   []string `json:"cells"`
	Tenants int      `json:"tenants"`
	Share   float64  `json:"share"` // of the tenants of all cells that are planned
	Load    float64  `json:"load"`
}

// planned is one cell.
type planned struct {
	Cell      string           `json:"cell"`
	Kept      bool             `json:"kept"`
	Empty     bool             `json:"empty"` // has no tenants: nothing is measured
	Scheme    string           `json:"scheme"`
	PerTenant int              `json:"perTenant"` // of the default size class
	MaxShared *int             `json:"maxShared,omitempty"`
	Tenants   int              `json:"tenants"`
	Load      float64          `json:"load"`
	Subsets   int              `json:"subsets"` // different ones in use
	Capacity  float64          `json:"shardCapacity"`
	Budget    planBudget       `json:"budget"`
	Failures  []planFailures   `json:"failures"`
	Sets      []planSet        `json:"sets"`
	Headroom  *planHeadroom    `json:"headroom,omitempty"`
	Router    *planRouter      `json:"router,omitempty"` // none without loads
	Requests  []planRequests   `json:"requests"`
	Fairness  *planFairness    `json:"fairness,omitempty"`
	Noise     *planNoise       `json:"noise,omitempty"`
	Zones     *planZones       `json:"zones,omitempty"`
	Choice    *planChoice      `json:"choice,omitempty"`
	HomeKeys  bool             `json:"homeKeys"` // state.mode home: capacity lost is keys lost
	Shards    []planShardState `json:"shards"`
}

// planBudget is the cell's budget, line by line.
type planBudget struct {
	ConcurrentFailures int        `json:"concurrentFailures"`
	Given              bool       `json:"given"` // the fleet has one
	Lines              []planLine `json:"lines"`
}

type planLine struct {
	Line  string   `json:"line"`
	Given bool     `json:"given"` // the budget has it; otherwise the limit is 1
	Limit float64  `json:"limit"`
	Found float64  `json:"found"`
	Kept  bool     `json:"kept"`
	Over  float64  `json:"over"`            // 0 when kept
	Worst []string `json:"worst,omitempty"` // shards whose failure it is found for
}

// planFailures is all failures of as many shards.
type planFailures struct {
	Failed     int         `json:"failed"`
	Sets       int         `json:"sets"`
	Of         float64     `json:"of"`
	Sampled    bool        `json:"sampled"`
	Confidence float64     `json:"confidence"` // of every interval, and of Beyond
	Beyond     float64     `json:"beyond"`     // share of all failures that may be worse than the worst of those drawn
	Degraded   planMeasure `json:"degraded"`
	FullyDown  planMeasure `json:"fullyDown"`
	Lost       planMeasure `json:"lost"` // capacity, and keys with a home, in tenants
	Lose       []planLose  `json:"lose"` // on average over all failures
}

type planLose struct {
	Lost    int     `json:"lost"`
	Of      int     `json:"of"`
	Tenants float64 `json:"tenants"`
	Load    float64 `json:"load"`
}

type planMeasure struct {
	Tenants planSummary `json:"tenants"`
	Load    planSummary `json:"load"`
}

type planSummary struct {
	Mean        float64    `json:"mean"`
	P50         float64    `json:"p50"`
	P90         float64    `json:"p90"`
	P99         float64    `json:"p99"`
	P99Interval [2]float64 `json:"p99Interval"`
	Worst       float64    `json:"worst"`
	WorstShards []string   `json:"worstShards"`
	AtMost      float64    `json:"atMost"`
}

// planSet is a declared set that fails as a whole.
type planSet struct {
	Name          string   `json:"name"`
	Shards        []string `json:"shards"`
	FullyDown     int      `json:"fullyDown"`
	Degraded      int      `json:"degraded"`
	FullyDownLoad float64  `json:"fullyDownLoad"`
	DegradedLoad  float64  `json:"degradedLoad"`
	LostTenants   float64  `json:"lostTenants"`
	LostLoad      float64  `json:"lostLoad"`
	Utilisation   float64  `json:"utilisation"` // of the fullest shard that is left; 0 when unknown or none is
}

type planHeadroom struct {
	Normal      float64    `json:"normal"`
	NormalShard string     `json:"normalShard"`
	Worst       float64    `json:"worst"`
	WorstShard  string     `json:"worstShard"`
	WorstFailed []string   `json:"worstFailed"`
	AtMost      float64    `json:"atMost"`
	Sampled     bool       `json:"sampled"`
	Free        float64    `json:"free"`           // share that the fullest shard must have free
	Needed      float64    `json:"neededCapacity"` // of each shard, if all are alike
	Cascades    bool       `json:"cascades"`
	Steps       []planStep `json:"steps"`
	AllFail     bool       `json:"allFail"`
}

type planStep struct {
	Failed    []string `json:"failed"`
	FullyDown int      `json:"fullyDown"`
	Degraded  int      `json:"degraded"`
	Worst     string   `json:"worst,omitempty"`
	Most      float64  `json:"most"`
}

// planRequests is what clients experience under the budget's failures.
type planRequests struct {
	Router      string  `json:"router"`
	Retries     int     `json:"retries"`
	Success     float64 `json:"success"`         // share of requests, each tenant counting the same, mean over all failures of as many shards
	SuccessLoad float64 `json:"successLoad"`     // each request counting the same
	Worst       float64 `json:"worstSuccess"`    // of the tenants that are hit, in the failure that degrades most
	Hit         float64 `json:"hitTenants"`      // number with less than all of their requests served, then
	Amplified   float64 `json:"amplified"`       // requests to shards for each of the clients' who have a shard left, then
	Utilisation float64 `json:"utilisation"`     // of the fullest shard then; 0 without a capacity
	Served      float64 `json:"served"`          // share of all requests that are answered then, if overloaded shards refuse what is too much, at no cost
	ServedFail  float64 `json:"servedIfFailing"` // and if they fail, and load goes on to others, to the end of that
	FailedThen  int     `json:"failedIfFailing"` // shards that are down in the end, those of the failure included
}

type planFairness struct {
	Tenants     planBalance `json:"tenants"`
	Load        planBalance `json:"load"`
	Top         []planTop   `json:"top"`
	TopShare    float64     `json:"topShare"`
	TooBig      []planBig   `json:"tooBig"`      // at most 100
	TooBigCount int         `json:"tooBigCount"` // all
	Against     float64     `json:"against"`     // the capacity that they are too big for
	Measured    bool        `json:"measured"`    // that is shard.capacity; otherwise the mean load of a shard
}

type planBalance struct {
	Mean        float64 `json:"mean"`
	Variance    float64 `json:"variance"`
	CV          float64 `json:"cv"`
	Max         float64 `json:"max"`
	MaxShard    string  `json:"maxShard"`
	MaxOverMean float64 `json:"maxOverMean"`
}

type planTop struct {
	Tenant     string  `json:"tenant"`
	Load       float64 `json:"load"`
	Share      float64 `json:"share"`
	Cumulative float64 `json:"cumulative"`
}

type planBig struct {
	Tenant    string  `json:"tenant"`
	Load      float64 `json:"load"`
	PerTenant int     `json:"perTenant"` // now
	Part      float64 `json:"part"`      // of a shard's capacity, after the budget's failures
	Needed    int     `json:"needed"`    // k that would do; 0: its own cell
}

// planNoise is what tenants have to do with each other. What Model is empty for is measured only.
type planNoise struct {
	Shared       float64  `json:"shared"`                     // measured: shards that a tenant shares with another, on average
	Same         float64  `json:"sameSubset"`                 // measured: others with exactly its shards, on average
	Overlapping  *uint64  `json:"overlappingPairs,omitempty"` // measured, unless too much work
	Pairs        uint64   `json:"pairs"`
	AllInOneZone float64  `json:"allInOneZone"`         // measured: share of tenants
	FanoutSlow   *float64 `json:"fanoutSlow,omitempty"` // chance that a fan-out to the subset meets a shard beyond its 99th percentile

	Model       string    `json:"model,omitempty"`   // uniform: any k shards; spread: over zones, by rendezvous/v1
	NoModel     string    `json:"noModel,omitempty"` // why nothing of the following is calculated
	MeanOverlap *float64  `json:"meanOverlap"`
	Overlap     []float64 `json:"overlap"` // chance that two tenants share exactly 0, 1, … shards
	Identical   *float64  `json:"identical"`
	Covered     []float64 `json:"covered"`  // chance that 1, 4 and 16 misbehaving tenants cover another's subset; fewer when too much work
	Birthday    *float64  `json:"birthday"` // null above 1.8e308
}

type planZones struct {
	Shards     map[string]int `json:"shards"` // by zone
	Most       float64        `json:"most"`   // share of a shard, as a multiple of the fair one
	MostShard  string         `json:"mostShard"`
	Least      float64        `json:"least"`
	LeastShard string         `json:"leastShard"`
	Even       bool           `json:"even"`
	Weighted   bool           `json:"weighted"` // shards have unequal weights
	Growth     []planGrowth   `json:"growth"`
}

// planGrowth is what one more shard in a zone moves: places of a tenant, on average.
type planGrowth struct {
	Zone     string  `json:"zone"`
	New      bool    `json:"newZone"` // the cell has no shard there yet
	Anew     bool    `json:"anew"`
	Ideal    float64 `json:"ideal"`
	Expected float64 `json:"expected"`
	Extra    float64 `json:"extra"`
}

// planChoice is the smallest n and k found that keep the budget with these very tenants. Of a fleet that keeps its
// budget it is today's when none smaller was found, or looked for.
type planChoice struct {
	Found     bool     `json:"found"`
	Shards    int      `json:"shards"`
	PerTenant int      `json:"perTenant"`
	Searched  bool     `json:"searched"` // false: it is today's, and no other was looked for
	LeastK    int      `json:"leastK"`   // the smallest k that was looked at
	MostK     int      `json:"mostK"`    // the largest
	Tried     int      `json:"tried"`    // pairs of n and k that the tenants were placed on to find it
	Cut       bool     `json:"cut"`      // that was too much work for every pair: a smaller one may keep it
	NotSet    []string `json:"notSet"`   // lines of the budget: no smaller fleet is looked for, and what is lost today is the limit
	Worse     []string `json:"worse"`    // what it gives up against today
	AtThisK   string   `json:"atThisK,omitempty"`
	Larger    string   `json:"whyNotLargerK"`
	Smaller   string   `json:"whyNotSmallerK"`
	Fewer     string   `json:"whyNotFewerShards"`
	Refused   string   `json:"refused,omitempty"` // why nothing keeps it

	Now        *planTried  `json:"now"`
	Neighbours []planTried `json:"neighbours"` // with the choice and today's
	Untried    int         `json:"untried"`    // neighbours that were too much work
}

// planTried is the cell's very tenants on n shards, k for each: what is lost at most.
type planTried struct {
	Shards       int        `json:"shards"`
	PerTenant    int        `json:"perTenant"`
	Cost         float64    `json:"cost"` // shards against today's
	Kept         bool       `json:"kept"`
	Broken       []planLine `json:"broken"`
	Degraded     float64    `json:"degraded"`
	CapacityLoss float64    `json:"capacityLoss"`
	FullyDown    float64    `json:"fullyDown"`
	Utilisation  float64    `json:"utilisation"` // of the fullest shard; 0 without a capacity
	Cascades     bool       `json:"cascades"`
	MeanOverlap  float64    `json:"meanOverlap"` // shards that two tenants share, on average
	Same         float64    `json:"sameSubset"`  // other tenants with exactly a tenant's shards, on average
	Unpinned     int        `json:"unpinned"`    // tenants placed without their pins, which it has not all the shards for

	pruned bool // broken, and not measured any further
}

// planShardState is one shard with nothing failed.
type planShardState struct {
	ID          string  `json:"id"`
	Zone        string  `json:"zone"`
	Tenants     int     `json:"tenants"`
	Load        float64 `json:"load"`
	Utilisation float64 `json:"utilisation"`
}

// newPlanFailures is the JSON form of a spread, with shards called as ids says.
func newPlanFailures(s *blast.Spread, ids func([]int) []string) planFailures {
	summary := func(s blast.Summary) planSummary {
		return planSummary{
			Mean: s.Mean, P50: s.P50.Value, P90: s.P90.Value, P99: s.P99.Value, P99Interval: [2]float64{s.P99.Low, s.P99.High},
			Worst: s.Worst, WorstShards: ids(s.WorstSet), AtMost: s.AtMost,
		}
	}
	measure := func(m blast.Measured) planMeasure { return planMeasure{summary(m.Tenants), summary(m.Load)} }
	f := planFailures{
		Failed: s.Failed, Sets: s.Sets, Of: s.Of, Sampled: s.Sampled, Confidence: s.Confidence, Beyond: s.Beyond,
		Degraded: measure(s.Degraded), FullyDown: measure(s.FullyDown), Lost: measure(s.Lost), Lose: []planLose{},
	}
	for _, l := range s.PerTenant {
		f.Lose = append(f.Lose, planLose(l))
	}
	return f
}
