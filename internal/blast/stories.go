package blast

import "fmt"

// Story is what a founding text tells, from the same formulas as everything else here.
type Story struct {
	Name string
	Text string // what fails, and for whom
	Rows []StoryRow
}

// StoryRow is one way to place tenants, and what becomes of those who did nothing wrong: shares from 0
// to 1, of which Down, Partly and Untouched add up to 1. They are expectations, where placement is
// random.
type StoryRow struct {
	Layout    string
	Shards    int
	PerTenant int
	Failed    int // shards that fail together
	Others    int // tenants that the shares are of; 0 where the text names no number

	Down      float64 // tenants with no shard left
	Partly    float64 // tenants that lost some shards, but not all
	Untouched float64

	// Share of all their requests that fail. With retries, in the subset and before the client gives
	// up, only the fully down fail; without, each tenant fails with the share of its shards that did.
	// A router that cannot leave a failed shard is no better than no retries.
	FailRetried float64
	FailOnce    float64
}

// Of is a share as a number of tenants.
func (r StoryRow) Of(share float64) float64 { return share * float64(r.Others) }

// Stories are those of the founding texts:
//
//   - eight machines, where one customer takes down 100 %, 25 % or 1 in 28 of the others, after Colm
//     MacCárthaigh, "Workload isolation using shuffle-sharding", Amazon Builders' Library;
//   - 2,000 tenants on 16 shards of which one or two fail, with k = 1, 2 and 3;
//   - 24 customers on 8 workers, where one poisons its two: the page's 0 down, 10 degraded and 13
//     untouched of the 23 others, which needs the placement of StoryPins, and what schemes expect.
//
// Without retries, shuffle sharding fails as many requests as fixed groups do: what it saves, the
// clients' retries save.
func Stories() []Story {
	return []Story{
		{
			Name: "eight machines",
			Text: "one customer's requests take down every machine that they reach",
			Rows: []StoryRow{
				storyGroups("any machine for any customer", 8, 1, 0),
				storyGroups("four groups of two", 8, 4, 0),
				storyRandom("a random pair for each customer", Uniform{8, 2}, 2, 0),
			},
		},
		{
			Name: "2,000 tenants on 16 shards",
			Text: "shards fail by themselves, one or two together",
			Rows: []StoryRow{
				storyRandom("k = 1, ordinary sharding", Uniform{16, 1}, 1, 2000),
				storyRandom("k = 2", Uniform{16, 2}, 1, 2000),
				storyRandom("k = 3", Uniform{16, 3}, 1, 2000),
				storyRandom("k = 1, two shards fail", Uniform{16, 1}, 2, 2000),
				storyRandom("k = 2, two shards fail", Uniform{16, 2}, 2, 2000),
				storyRandom("k = 3, two shards fail", Uniform{16, 3}, 2, 2000),
			},
		},
		{
			Name: "24 customers on 8 workers",
			Text: "one customer poisons all of its workers; shares are of the 23 others",
			Rows: []StoryRow{
				storyGroups("any worker for any customer", 8, 1, 24),
				storyGroups("four cells of two", 8, 4, 24),
				storyPinned("the page's pins, whichever customer it is", StoryPins()),
				storyRandom("k = 2, expected of a scheme", Uniform{8, 2}, 2, 23),
				storyRandom("k = 4, expected of a scheme", Uniform{8, 4}, 4, 23),
			},
		},
	}
}

// storyRandom: subsets at random, and the others lose what the model says.
func storyRandom(layout string, u Uniform, failed, others int) StoryRow {
	lost := exactHypergeometric(u.n, failed, u.k)
	row := StoryRow{Layout: layout, Shards: u.n, PerTenant: u.k, Failed: failed, Others: others, Untouched: lost[0]}
	if failed >= u.k {
		row.Down = lost[u.k]
	}
	for i, chance := range lost {
		if i > 0 && i < u.k {
			row.Partly += chance
		}
	}
	row.FailRetried, row.FailOnce = row.Down, float64(failed)/float64(u.n)
	return row
}

// storyGroups: equal groups of shards, with as many tenants each, and one group fails for the sake of
// one of its tenants. Of no number of tenants it takes its share.
func storyGroups(layout string, shards, groups, tenants int) StoryRow {
	row := StoryRow{Layout: layout, Shards: shards, PerTenant: shards / groups, Failed: shards / groups, Down: 1 / float64(groups)}
	if tenants > 0 {
		row.Others = tenants - 1
		row.Down = float64(tenants/groups-1) / float64(tenants-1)
	}
	row.Untouched, row.FailRetried, row.FailOnce = 1-row.Down, row.Down, row.Down
	return row
}

// storyPinned: what the first of the pinned tenants does to the others.
func storyPinned(layout string, pins []StoryPin) StoryRow {
	poison, others := pins[0].Shards, pins[1:]
	row := StoryRow{Layout: layout, Shards: storyWorkers, PerTenant: len(poison), Failed: len(poison), Others: len(others)}
	each := 1 / float64(len(others))
	down, partly := 0, 0
	for _, pin := range others {
		lost := 0
		for _, s := range pin.Shards {
			for _, p := range poison {
				if s == p {
					lost++
				}
			}
		}
		switch lost {
		case 0:
		case len(pin.Shards):
			down++
		default:
			partly++
		}
		row.FailOnce += each * float64(lost) / float64(len(pin.Shards))
	}
	row.Down, row.Partly = float64(down)/float64(len(others)), float64(partly)/float64(len(others))
	row.Untouched = float64(len(others)-down-partly) / float64(len(others))
	row.FailRetried = row.Down
	return row
}

const storyWorkers = 8

// StoryPin is the explicit subset of one tenant.
type StoryPin struct {
	Tenant string
	Shards []int // from 0
}

// StoryPins places 24 customers so that whichever of them poisons its two of 8 workers, none of the 23
// others is down, 10 lose one worker and 13 are untouched. The 24th is the customer itself, which loses
// both.
//
// There is one such placement, up to the names of workers. All pairs must be different, or someone
// else would be down. Each worker of a pair must have so many customers that the two have 10 more,
// so 12 in all; since the sum is the same for every pair in use, every worker has 24·2/8 = 6. Six
// of the seven others, for each of eight: every pair but four that have no worker in common.
func StoryPins() []StoryPin {
	var pins []StoryPin
	for distance := 1; distance < storyWorkers; distance++ { // so that neighbours in the list are unlike
		for a := 0; a+distance < storyWorkers; a++ {
			if b := a + distance; a/2 != b/2 {
				pins = append(pins, StoryPin{fmt.Sprintf("customer-%02d", len(pins)+1), []int{a, b}})
			}
		}
	}
	return pins
}
