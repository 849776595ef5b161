package cwgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/rollout"
)

const (
	most  = 100 // names in a question, and records on a page (CloudWatch API, DescribeAlarms and DescribeAlarmHistory)
	pages = 50  // of one answer
)

var kinds = []types.AlarmType{types.AlarmTypeCompositeAlarm, types.AlarmTypeMetricAlarm}

// place is an account and region with cells. What is known of their alarms is asked for all of them at once.
type place struct {
	g               *Gate
	account, region string
	connect         func(context.Context, string, string) (Client, error)
	watched         map[string]bool // full names
	own             []string        // of these, the cells' own

	turn   chan struct{} // a place for who asks; what follows is theirs
	client Client
	now    sight
	past   past
}

// sight is which alarms there are, and which ring.
type sight struct {
	at     time.Time // when it was asked for; zero before the first time
	err    error
	firing map[string]bool             // of the watched ones
	states map[string]types.StateValue // of the cells' own that are there
}

func newPlace(g *Gate, account, region string, connect func(context.Context, string, string) (Client, error)) *place {
	return &place{g: g, account: account, region: region, connect: connect, watched: map[string]bool{}, turn: make(chan struct{}, 1), past: newPast()}
}

// enter waits for its turn. The caller gives it back by <-p.turn.
func (p *place) enter(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reach is the place's client, made when it is asked for first.
func (p *place) reach(ctx context.Context) (Client, error) {
	if p.client != nil {
		return p.client, nil
	}
	client, err := p.connect(ctx, p.account, p.region)
	if err == nil && client == nil {
		err = errors.New("there is no client")
	}
	if err != nil {
		return nil, fmt.Errorf("CloudWatch of account %s in %s: %w", p.account, p.region, err)
	}
	p.client = client
	return client, nil
}

// look fills in what the alarms of a cell say. An error is that of ctx; all others are missing data.
func (p *place) look(ctx context.Context, c *cell, since, from time.Time, o *rollout.Observation) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer func() { <-p.turn }()
	// What was seen before a change, or before a bake, says nothing of it.
	after := since
	if from.After(after) {
		after = from
	}
	p.see(ctx, after, patient)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.now.err != nil {
		o.Missing = append(o.Missing, told("alarms", p.now.err))
	}
	for name, short := range c.all {
		if p.now.firing[name] {
			o.Firing = append(o.Firing, short)
		}
	}
	if state, there := p.now.states[c.own[0]]; p.now.err == nil && !there {
		o.Missing = append(o.Missing, fmt.Sprintf("%s (there is no such alarm; it is of stack %s)", c.all[c.own[0]], c.stack))
	} else if state == types.StateValueInsufficientData {
		o.Missing = append(o.Missing, c.all[c.own[0]]+" (it knows nothing)")
	}
	if from.IsZero() {
		return nil
	}
	if err := p.recall(ctx, after, from); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o.Missing = append(o.Missing, told("the alarms' history", err))
	}
	p.past.tell(c, p.now.states, since, from, o)
	return nil
}

// kinds is the kinds of alarms that ring in each of these cells. What cannot be seen does not ring.
func (p *place) kinds(ctx context.Context, cells []*cell) []map[string]bool {
	if p.enter(ctx) != nil {
		return nil
	}
	defer func() { <-p.turn }()
	p.see(ctx, time.Time{}, once)
	var all []map[string]bool
	for _, c := range cells {
		ring := map[string]bool{}
		for name, short := range c.all {
			if p.now.firing[name] {
				ring[kind(short)] = true
			}
		}
		all = append(all, ring)
	}
	return all
}

// see asks for the alarms, unless that was done lately, and not before after.
func (p *place) see(ctx context.Context, after time.Time, how patience) {
	now := p.g.now()
	if s := p.now; !s.at.IsZero() && now.Sub(s.at) < p.g.fresh && !s.at.After(now) && !s.at.Before(after) {
		return
	}
	s := sight{at: now, firing: map[string]bool{}, states: map[string]types.StateValue{}}
	client, err := p.reach(ctx)
	if err == nil {
		err = errors.Join(p.rings(ctx, client, how, &s), p.exist(ctx, client, how, &s))
	}
	if ctx.Err() != nil {
		return // it says nothing to others
	}
	s.err = err
	p.now = s
	for name := range s.firing {
		p.past.ring(name, now)
	}
}

// rings is the watched alarms that are in ALARM. Those of other cells and services are read over.
func (p *place) rings(ctx context.Context, client Client, how patience, s *sight) error {
	in := &cloudwatch.DescribeAlarmsInput{AlarmNamePrefix: aws.String(p.g.service + "/"), AlarmTypes: kinds, StateValue: types.StateValueAlarm, MaxRecords: aws.Int32(most)}
	return p.alarms(ctx, client, how, in, func(name string, state types.StateValue) {
		if state == types.StateValueAlarm && p.watched[name] {
			s.firing[name] = true
		}
	})
}

// exist is the states of the cells' own alarms.
func (p *place) exist(ctx context.Context, client Client, how patience, s *sight) error {
	for some := range slices.Chunk(p.own, most) {
		in := &cloudwatch.DescribeAlarmsInput{AlarmNames: some, AlarmTypes: kinds, MaxRecords: aws.Int32(most)}
		if err := p.alarms(ctx, client, how, in, func(name string, state types.StateValue) {
			if p.watched[name] {
				s.states[name] = state
				if state == types.StateValueAlarm {
					s.firing[name] = true
				}
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) alarms(ctx context.Context, client Client, how patience, in *cloudwatch.DescribeAlarmsInput, take func(name string, state types.StateValue)) error {
	for range pages {
		out, err := ask(ctx, p.g, how, func(ctx context.Context) (*cloudwatch.DescribeAlarmsOutput, error) {
			return client.DescribeAlarms(ctx, in)
		})
		if err != nil {
			return fmt.Errorf("DescribeAlarms: %w", err)
		}
		for _, a := range out.CompositeAlarms {
			take(aws.ToString(a.AlarmName), a.StateValue)
		}
		for _, a := range out.MetricAlarms {
			take(aws.ToString(a.AlarmName), a.StateValue)
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
	return fmt.Errorf("DescribeAlarms: the answer has more than %d pages", pages)
}
