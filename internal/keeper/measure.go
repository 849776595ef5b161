package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// Loads knows how many requests each shard was sent of late, over the same time for all. A shard that is not in the
// answer was sent none.
type Loads interface {
	Requests(ctx context.Context, shards []string) (map[string]float64, error)
}

// Measures is what operators are told after each run, whatever became of it. A nil member is not known.
type Measures struct {
	SnapshotAge   *float64 // seconds since the snapshot that stands was written; nil before the first
	DirectoryAge  *float64 // seconds since what it has of tenants and topologies was read, the older of the two
	HealthAge     *float64 // seconds since what it has of the shards' health was read, the oldest part of that
	KeyAge        *float64 // days since the newest version of the cell's placement key was made
	LoadVariation *float64 // of the shards' requests by weight, as Variation has it, in percent
}

// measureTimeout is for one question.
const measureTimeout = 15 * time.Second

// Measure tells of the cell, or of the front door, after the run whose outcome is given, also of one that failed. What cannot be known is
// left out; the error says why.
func (k *Keeper) Measure(ctx context.Context, o Outcome) (Measures, error) {
	var m Measures
	var errs []error
	if k.c.KeyMade != nil {
		made, err := within(ctx, k.c.KeyMade)
		if err == nil {
			m.KeyAge = value(k.c.Now().Sub(made).Hours() / 24)
		} else {
			errs = append(errs, fmt.Errorf("age of the placement key: %w", err))
		}
	}
	s := o.stands
	if s == nil {
		return m, errors.Join(errs...)
	}
	m.SnapshotAge = k.age(s.Taken)
	if k.cells != nil { // of a cell's parts, a front door's snapshot has entries alone
		m.DirectoryAge = k.age(s.Times.Entries)
		return m, errors.Join(errs...)
	}
	m.DirectoryAge = k.age(s.Times.Entries, s.Times.Topologies)
	m.HealthAge = k.age(k.healthTimes(s.Times)...)
	if weights := k.comparable(s); k.c.Loads != nil && len(weights) > 1 {
		requests, err := within(ctx, func(ctx context.Context) (map[string]float64, error) {
			return k.c.Loads.Requests(ctx, slices.Sorted(maps.Keys(weights)))
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("load of the shards: %w", err))
		} else if v, ok := Variation(requests, weights); ok {
			m.LoadVariation = &v
		}
	}
	return m, errors.Join(errs...)
}

func within[V any](ctx context.Context, ask func(context.Context) (V, error)) (V, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	return ask(ctx)
}

func value(v float64) *float64 {
	v = max(0, v)
	return &v
}

// age is that of the oldest of several times. What was never read is as old as a snapshot may become.
func (k *Keeper) age(times ...time.Time) *float64 {
	oldest := slices.MinFunc(times, time.Time.Compare)
	if oldest.IsZero() {
		return value(snapshot.MaxAge.Seconds())
	}
	return value(k.c.Now().Sub(oldest).Seconds())
}

// healthTimes are those of the parts that the cell has.
func (k *Keeper) healthTimes(t snapshot.Times) []time.Time {
	times := []time.Time{t.Drained}
	for _, part := range []struct {
		there bool
		at    time.Time
	}{{k.c.Targets != nil, t.Targets}, {k.c.Throttles != nil, t.Throttles}, {k.c.Queues != nil, t.Queues}} {
		if part.there {
			times = append(times, part.at)
		}
	}
	return times
}

// comparable are the shards whose loads ought to be alike, with their weights: those on which every topology in use
// places tenants, since one that is new has few yet; without the quarantine's, and those that operators drained.
func (k *Keeper) comparable(s *snapshot.Snapshot) map[string]int {
	var weights map[string]int
	for _, t := range s.Topologies { // by version: weights are the newest one's
		if t.Retired {
			continue
		}
		here := map[string]int{}
		for _, shard := range t.Shards {
			_, before := weights[shard.ID]
			if shard.State == directory.InUse && (weights == nil || before) {
				here[shard.ID] = shard.Weight
			}
		}
		weights = here
	}
	for _, r := range s.Health {
		if r.Drained {
			delete(weights, r.Shard)
		}
	}
	for _, shard := range k.c.Quarantine {
		delete(weights, shard)
	}
	return weights
}

// enoughRequests is how many requests a shard must have had on average: with so few, chance alone makes loads differ
// by a tenth.
const enoughRequests = 100

// Variation is the coefficient of variation of the shards' requests by weight: their standard deviation in percent
// of their mean, 0 when all are alike and 100·√(n-1) when one of n has everything. It says nothing of fewer than two
// shards, and of shards with fewer than enoughRequests on average.
func Variation(requests map[string]float64, weights map[string]int) (percent float64, ok bool) {
	loads, total := make([]float64, 0, len(weights)), 0.0
	for _, shard := range slices.Sorted(maps.Keys(weights)) { // in order: sums of floats depend on it
		total += requests[shard]
		loads = append(loads, requests[shard]/float64(weights[shard]))
	}
	n := float64(len(loads))
	if n < 2 || !(total >= enoughRequests*n) || math.IsInf(total, 0) {
		return 0, false
	}
	mean, squares := 0.0, 0.0
	for _, l := range loads {
		mean += l / n
	}
	for _, l := range loads {
		squares += (l - mean) * (l - mean) / n
	}
	return 100 * math.Sqrt(squares) / mean, true
}
