package health

import (
	"math"
	"time"
)

// Report is what somebody who looks at all shards knows of one, as of the time that comes with it.
//
// Its severity is 1 when no target is healthy. Else it is the largest of: half the share of targets that are
// not healthy; Throttled / (Throttled + 60), so that one refusal a second is a half. On the way by queue it
// is QueueAge / (QueueAge + 5 min), and nothing else.
type Report struct {
	Shard            string
	Healthy, Targets int           // of its target group; 0 of 0 when it has none
	Throttled        float64       // refused invocations of its slice, a minute
	QueueAge         time.Duration // of the oldest message in its queue
	Drained          bool          // an operator wants it to be left alone
}

const (
	halfLife   = 2 * time.Minute // of a report's weight
	illWeight  = 0.25            // of a report that no target is healthy, for the shard to be ill
	gravity    = 9               // how much the worst report adds to a latency, as a multiple
	someRefuse = 60.0            // refusals a minute with a severity of a half
	someWait   = 5 * time.Minute // age of a queue with a severity of a half
)

// report is a Report as it is kept. It never changes. A nil one knows nothing.
type report struct {
	taken    int64 // on the Tracker's clock
	severity float64
	none     bool // no target is healthy
	drained  bool
}

// Report takes what is known of all shards as of the time taken, in place of what was known before: a shard
// that is not named has no report any more. What was taken earlier than the last, or at the same time, is
// passed over; a time that is yet to come, by a clock that is ahead, is now.
func (t *Tracker) Report(taken time.Time, reports []Report) {
	t.reports.Lock()
	defer t.reports.Unlock()
	if !taken.After(t.taken) {
		return
	}
	now := t.now()
	if taken.After(now) {
		taken = now
	}
	t.taken = taken
	at := int64(taken.Sub(t.start))
	named := make(map[*shard]bool, len(reports))
	for _, r := range reports {
		if s := t.shards.Get(r.Shard); s != nil {
			s.report.Store(r.kept(at, t.rules.queue))
			named[s] = true
		}
	}
	t.shards.All(func(_ string, s *shard) {
		if !named[s] {
			s.report.Store(nil)
		}
	})
}

func (r Report) kept(at int64, queue bool) *report {
	k := &report{taken: at, drained: r.Drained}
	if queue {
		wait := max(0, r.QueueAge.Seconds())
		k.severity = wait / (wait + someWait.Seconds())
		return k
	}
	if r.Targets > 0 {
		healthy := min(max(r.Healthy, 0), r.Targets)
		k.none = healthy == 0
		k.severity = (1 - float64(healthy)/float64(r.Targets)) / 2
	}
	if r.Throttled > 0 { // not a NaN
		k.severity = max(k.severity, 1/(1+someRefuse/r.Throttled))
	}
	if k.none {
		k.severity = 1
	}
	return k
}

// weight is what the report still counts for, from 1 to 0.
func (r *report) weight(now int64) float64 {
	return math.Exp2(-float64(max(now-r.taken, 0)) / float64(halfLife))
}

// unhealthy says whether the shard is ill by the report, for a process that last had an answer then.
func (r *report) unhealthy(now, answered int64) bool {
	return r != nil && r.none && !r.refuted(answered) && r.weight(now) >= illWeight
}

// refuted says whether an own answer is later than the report's word that nobody can answer.
func (r *report) refuted(answered int64) bool { return answered != 0 && answered > r.taken }

// factor is what the shard's latency is multiplied with.
func (r *report) factor(now, answered int64) float64 {
	if r == nil || r.severity == 0 || r.none && r.refuted(answered) {
		return 1
	}
	return 1 + gravity*r.severity*r.weight(now)
}

func (r *report) drains() bool { return r != nil && r.drained }
