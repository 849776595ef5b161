// Package cwgate is the gate of a rollout over CloudWatch: which alarms of a cell ring, which have rung since it was
// changed, and how many requests its routers served.
//
// Of a cell it watches the alarm over everything that serves, and each alarm that may last, of the cell and of its shards
// (names.Cell.Health, names.Cell.Lasting, names.Shard.Lasting). An alarm's name in an observation is what follows SERVICE/CELL/ in its
// own: "health", "snapshot-age", "s03/dead-letters". What is inconclusive stands in Missing, with the reason in brackets.
//
// Cells of one account and region are looked at together: three questions or so for all of them, which are asked once
// within Options.Every, and pages of the answers up to a bound. What CloudWatch turns away, or does not answer, is asked again
// for as long as a look lasts.
//
// Permissions, none of which is limited to single alarms or metrics here: cloudwatch:DescribeAlarms, cloudwatch:DescribeAlarmHistory,
// cloudwatch:GetMetricData.
//
// # Guarantees
//
// Each is held by the test of the same name, over a CloudWatch that delays, turns away, cuts into pages and lies.
//
//  1. Fired: an alarm that was in ALARM at any time since from is told once CloudWatch's history has its coming or going since then, up
//     to ten minutes late, whether it still rings or not; also when the look comes late, or from another process. CloudWatch
//     keeps the history for 30 days.
//  2. NotBefore: an alarm that left ALARM before from and was not in it since is not told.
//  3. NeverOverCounted: Requests is at most what was served since since, whatever the alignment, delay and pages.
//  4. Elsewhere: an alarm is told to ring elsewhere only when one of its kind rings now in more than half of the cells that are not
//     reached; a cell that cannot be seen does not ring.
//  5. MissingIsTold: an alarm over everything that is not there or knows nothing, a history that cannot be read, requests that
//     nobody counts: each is in Missing, and hides nothing that rings.
//  6. Bounded: no answer of CloudWatch, however long or false, keeps a look from ending.
package cwgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Client is the part of *cloudwatch.Client that is needed.
type Client interface {
	DescribeAlarms(context.Context, *cloudwatch.DescribeAlarmsInput, ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmsOutput, error)
	DescribeAlarmHistory(context.Context, *cloudwatch.DescribeAlarmHistoryInput, ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmHistoryOutput, error)
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

// Options are what a gate may be told beside the fleet.
type Options struct {
	// Every is the time between two looks at a cell, 5 s by default: what was asked within it is not asked again.
	Every time.Duration
	// Now is the clock, by default that of this machine; Wait waits for so long, or until ctx ends.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
}

// Gate observes the cells of a fleet.
type Gate struct {
	service string
	cells   map[string]*cell
	alarms  bool // they stop a rollout
	fresh   time.Duration
	now     func() time.Time
	wait    func(context.Context, time.Duration) error
}

var _ run.Gate = (*Gate)(nil)

// cell is a cell that can be observed. Its fields do not change, but for counted.
type cell struct {
	name  string
	stack string            // that its alarm over everything is of
	own   []string          // full names of its own watched alarms; the first is that over everything
	all   map[string]string // full names of all watched alarms, its own and those of shards, to what follows the prefix
	at    *place

	mu      sync.Mutex
	counted counted // last
}

// New is a gate over the cells of a fleet. client is called once for each account and region that has a cell, when one of
// these is looked at for the first time; an error of it is missing data, and it is called again. With rollout.haltOn.alarms: none
// alarms are neither asked for nor told.
func New(f *fleet.Fleet, client func(ctx context.Context, account, region string) (Client, error), o Options) (*Gate, error) {
	if f == nil || client == nil || o.Every < 0 {
		return nil, errors.New("a gate needs a fleet, a client for each account and region, and an interval of at least 0s")
	}
	g := &Gate{service: f.Service, cells: map[string]*cell{}, alarms: f.Rollout.HaltOn.Alarms != "none", now: o.Now, wait: o.Wait}
	if g.now == nil {
		g.now = time.Now
	}
	if g.wait == nil {
		g.wait = pause
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	g.fresh = o.Every - o.Every/5 // the next look comes a little early, too
	places := map[[2]string]*place{}
	for _, c := range f.Cells {
		where := [2]string{c.Account, c.Region}
		if places[where] == nil {
			places[where] = newPlace(g, where[0], where[1], client)
		}
		at, n := places[where], names.ForFleet(f.Service).Cell(c.Name)
		made := &cell{name: c.Name, stack: n.WatchStack(), own: append([]string{n.Health()}, n.Lasting()...), all: map[string]string{}, at: at}
		watched := slices.Clone(made.own)
		for _, s := range c.Shards {
			watched = append(watched, n.Shard(s.ID).Lasting()...)
		}
		for _, name := range watched {
			made.all[name] = strings.TrimPrefix(name, n.Alarm(""))
			at.watched[name] = true
		}
		at.own = append(at.own, made.own...)
		g.cells[c.Name] = made
	}
	return g, nil
}

// Look implements run.Gate. Before a cell is changed, when since and from are zero, it tells what rings now and counts
// nothing.
func (g *Gate) Look(ctx context.Context, name string, since, from time.Time, unreached []string) (rollout.Observation, error) {
	c := g.cells[name]
	if c == nil {
		return rollout.Observation{}, fmt.Errorf("look at cell %q: the fleet has none of that name", name)
	}
	var o rollout.Observation
	if g.alarms {
		if err := c.at.look(ctx, c, since, from, &o); err != nil {
			return rollout.Observation{}, fmt.Errorf("look at cell %s: %w", name, err)
		}
		if rung := append(slices.Clone(o.Firing), o.Fired...); len(rung) > 0 && !from.IsZero() {
			o.Elsewhere = g.elsewhere(ctx, name, unreached, rung)
		}
	}
	if !since.IsZero() {
		var missing string
		if o.Requests, missing = g.requests(ctx, c, since); missing != "" {
			o.Missing = append(o.Missing, missing)
		}
	}
	for _, list := range []*[]string{&o.Firing, &o.Fired, &o.Missing, &o.Elsewhere} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if err := ctx.Err(); err != nil && len(o.Firing)+len(o.Fired) == 0 {
		return rollout.Observation{}, fmt.Errorf("look at cell %s: %w", name, err)
	}
	return o, nil
}

// elsewhere is which of these alarms ring now in more than half of the cells that are not reached. A shard's compares with
// any shard's of its kind.
func (g *Gate) elsewhere(ctx context.Context, own string, unreached, rung []string) []string {
	others := map[string]bool{}
	for _, name := range unreached {
		if name != own {
			others[name] = true
		}
	}
	byPlace := map[*place][]*cell{}
	for name := range others {
		if c := g.cells[name]; c != nil {
			byPlace[c.at] = append(byPlace[c.at], c)
		}
	}
	var mu sync.Mutex
	cells := map[string]int{} // in how many cells a kind rings
	var all sync.WaitGroup
	for at, some := range byPlace {
		all.Go(func() {
			for _, kinds := range at.kinds(ctx, some) {
				mu.Lock()
				for kind := range kinds {
					cells[kind]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	var most []string
	for _, alarm := range rung {
		if 2*cells[kind(alarm)] > len(others) {
			most = append(most, alarm)
		}
	}
	return most
}

// kind is an alarm's name without its shard's.
func kind(alarm string) string {
	if _, of, ok := strings.Cut(alarm, "/"); ok {
		return "shard/" + of
	}
	return alarm
}
