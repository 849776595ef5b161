package localcell

import (
	"context"
	"log/slog"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/lambda/shardkit"
)

const (
	tickRetries = 2           // of a tick that failed, as AWS Lambda has it
	clockLimit  = time.Minute // for one wait, since the machine's clock may be set, or the machine sleep
)

// SchedulePlan is one of the fleet's schedules, by which every shard does something of its own.
type SchedulePlan struct {
	Name  string        `json:"name"`
	Every time.Duration `json:"every"` // nanoseconds
}

// clock has a shard's worker do the ticks of one schedule, as EventBridge and Lambda do on AWS: at the times that the
// shard has there, again when one failed, and none of those that were missed.
type clock struct {
	schedule SchedulePlan
	offset   time.Duration // after midnight UTC
	shard    string
	consumer *shardkit.Consumer
	ready    func() bool // whether the worker is there
	log      *slog.Logger
}

// clocks are those of a pump's shard.
func (s *supervisor) clocks(d *door, p *pump) []*clock {
	var all []*clock
	for _, schedule := range d.cell.plan.Schedules {
		offset := fleet.Schedule{Name: schedule.Name, Every: schedule.Every}.Offset(d.cell.plan.Cell, d.shard)
		all = append(all, &clock{schedule, offset, d.shard, p.consumer, p.ready, s.log.With("shard", d.name, "schedule", schedule.Name)})
	}
	return all
}

// run has the ticks done until ctx ends.
func (k *clock) run(ctx context.Context) {
	due := k.next(time.Now())
	for ctx.Err() == nil {
		now := time.Now()
		if wait := due.Sub(now); wait > 0 {
			pause(ctx, min(wait, clockLimit))
			continue
		}
		if last := k.next(now).Add(-k.schedule.Every); last.After(due) {
			due = last // the clock was set, or the machine slept
		}
		k.tick(ctx, due)
		due = due.Add(k.schedule.Every)
	}
}

// next is the first time after now at which the schedule is due. A day is a multiple of the time between two ticks, so
// that the times since 1970 are those since midnight.
func (k *clock) next(now time.Time) time.Time {
	return now.UTC().Add(-k.offset).Truncate(k.schedule.Every).Add(k.offset + k.schedule.Every)
}

// tick has one tick done, before the next is due.
func (k *clock) tick(ctx context.Context, due time.Time) {
	ctx, cancel := context.WithDeadline(ctx, due.Add(k.schedule.Every))
	defer cancel()
	for tries := 1; ctx.Err() == nil; tries++ {
		if !k.ready() {
			pause(ctx, storePause)
			tries--
			continue
		}
		limit, end := context.WithTimeout(ctx, jobLimit)
		err := k.consumer.Tick(limit, shardkit.Tick{Name: k.schedule.Name, Shard: k.shard, Every: k.schedule.Every, Due: due})
		end()
		switch {
		case err == nil:
			return
		case tries > tickRetries:
			k.log.Error("tick is given up", "due", due, "why", err)
			return
		}
		k.log.Warn("tick comes again", "due", due, "why", err)
		pause(ctx, again(tries))
	}
}
