package cwgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/rollout"
)

const (
	// late is by how much an item of the history may come after its time. What was read is read again by so much.
	late = 10 * time.Minute
	// largest is what is read of an item's data, in bytes.
	largest = 64 << 10
)

// past is what is known of the alarms' history. Of each watched alarm the latest times are kept, by full names: an alarm was
// in ALARM since any time at which, or after which, one of entered and left lies.
type past struct {
	from    time.Time // all that is since, up to read, was read; zero before the first time
	read    time.Time
	err     error
	next    [2]time.Time // by kind of alarm, where reading goes on
	entered latest       // ALARM
	left    latest       // ALARM
	blind   latest       // INSUFFICIENT_DATA was entered, from a state that knew something
	unclear latest       // an item that cannot be read
}

// latest is the latest time of something, by the name of an alarm.
type latest map[string]time.Time

func (l latest) at(name string, t time.Time) {
	if t.After(l[name]) {
		l[name] = t
	}
}

func newPast() past {
	return past{entered: latest{}, left: latest{}, blind: latest{}, unclear: latest{}}
}

// ring notes that an alarm was seen in ALARM.
func (p *past) ring(name string, at time.Time) { p.entered.at(name, at) }

// recall reads the history since from, unless that was done lately, and not before after.
func (p *place) recall(ctx context.Context, after, from time.Time) error {
	h, now := &p.past, p.g.now()
	if h.from.IsZero() || from.Before(h.from) {
		h.from, h.read, h.next = from, time.Time{}, [2]time.Time{from, from}
	} else if now.Sub(h.read) < p.g.fresh && !h.read.After(now) && !h.read.Before(after) {
		return h.err
	}
	client, err := p.reach(ctx)
	if err == nil {
		for i := range kinds {
			err = errors.Join(err, p.history(ctx, client, i, now))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h.read, h.err = now, err
	return err
}

// history reads the items of one kind of alarms, the oldest first. What one look has no time for is the next one's.
func (p *place) history(ctx context.Context, client Client, i int, now time.Time) error {
	h := &p.past
	in := &cloudwatch.DescribeAlarmHistoryInput{AlarmTypes: kinds[i : i+1], HistoryItemType: types.HistoryItemTypeStateUpdate,
		StartDate: aws.Time(h.next[i].Truncate(time.Second)), MaxRecords: aws.Int32(most), ScanBy: types.ScanByTimestampAscending}
	for range pages {
		out, err := ask(ctx, p.g, patient, func(ctx context.Context) (*cloudwatch.DescribeAlarmHistoryOutput, error) {
			return client.DescribeAlarmHistory(ctx, in)
		})
		if err != nil {
			return fmt.Errorf("DescribeAlarmHistory: %w", err)
		}
		for _, item := range out.AlarmHistoryItems {
			if p.watched[aws.ToString(item.AlarmName)] {
				h.take(item)
			}
			if at := aws.ToTime(item.Timestamp); at.After(h.next[i]) && !at.After(now) {
				h.next[i] = at
			}
		}
		if aws.ToString(out.NextToken) == "" {
			if h.next[i] = now.Add(-late); h.next[i].Before(h.from) {
				h.next[i] = h.from
			}
			return nil
		}
		in.NextToken = out.NextToken
	}
	return fmt.Errorf("there are more than %d items; the next look reads on", pages*most)
}

// take notes an item of a watched alarm.
func (p *past) take(item types.AlarmHistoryItem) {
	name, at := aws.ToString(item.AlarmName), aws.ToTime(item.Timestamp)
	before, after, ok := transition(item)
	if !ok {
		p.unclear.at(name, at)
	}
	if after == types.StateValueAlarm {
		p.entered.at(name, at)
	}
	if before == types.StateValueAlarm {
		p.left.at(name, at)
	}
	if after == types.StateValueInsufficientData && before != after {
		p.blind.at(name, at)
	}
}

// transition is the states before and after an item; not ok when it does not say both, or says two different things. ALARM
// is told when it is said anywhere.
func transition(item types.AlarmHistoryItem) (before, after types.StateValue, ok bool) {
	var data struct {
		OldState, NewState struct{ StateValue types.StateValue }
	}
	text := aws.ToString(item.HistoryData)
	readable := len(text) <= largest && json.Unmarshal([]byte(text), &data) == nil
	var old, now types.StateValue
	if words := strings.Fields(aws.ToString(item.HistorySummary)); len(words) == 6 && words[2] == "from" && words[4] == "to" {
		old, now = types.StateValue(words[3]), types.StateValue(words[5])
	}
	if !readable {
		data.OldState.StateValue, data.NewState.StateValue = old, now
	}
	before, well := either(data.OldState.StateValue, old)
	after, fine := either(data.NewState.StateValue, now)
	return before, after, well && fine
}

// either is what two say of one state, of whom one may say nothing.
func either(a, b types.StateValue) (types.StateValue, bool) {
	switch {
	case a == "":
		a = b
	case b == "":
		b = a
	case a != b && (a == types.StateValueAlarm || b == types.StateValueAlarm):
		return types.StateValueAlarm, false
	}
	known := a == types.StateValueAlarm || a == types.StateValueOk || a == types.StateValueInsufficientData
	return a, a == b && known
}

// tell is what the past says of a cell that was changed at from and bakes since.
func (p *past) tell(c *cell, states map[string]types.StateValue, since, from time.Time, o *rollout.Observation) {
	for name, short := range c.all {
		if at, ok := p.entered[name]; ok && !at.Before(from) || p.left[name].After(from) {
			o.Fired = append(o.Fired, short)
		}
		// A bake with a hole in it begins again, and the hole is behind it then.
		hole := since
		if from.After(hole) {
			hole = from
		}
		if p.unclear[name].After(hole) {
			o.Missing = append(o.Missing, short+" (what CloudWatch says of its history makes no sense)")
		}
		blind, still := p.blind[name], states[name] == types.StateValueInsufficientData
		switch {
		case name == c.own[0] && !still && blind.After(hole):
			o.Missing = append(o.Missing, fmt.Sprintf("%s (it knew nothing at %s)", short, blind.UTC().Format(time.RFC3339)))
		case name != c.own[0] && still && !blind.Before(from):
			o.Missing = append(o.Missing, fmt.Sprintf("%s (it knows nothing since %s)", short, blind.UTC().Format(time.RFC3339)))
		}
	}
}
