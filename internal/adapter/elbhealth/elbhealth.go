// Package elbhealth tells how many targets of each shard's target group the load balancer finds healthy.
//
// Permissions: elasticloadbalancing:DescribeTargetGroups and elasticloadbalancing:DescribeTargetHealth,
// neither of which can be granted for one target group alone.
package elbhealth

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"golang.org/x/sync/errgroup"

	"cellwall.dev/cellwall/internal/keeper"
)

// Client is the part of *elasticloadbalancingv2.Client that is needed.
type Client interface {
	DescribeTargetGroups(context.Context, *elb.DescribeTargetGroupsInput, ...func(*elb.Options)) (*elb.DescribeTargetGroupsOutput, error)
	DescribeTargetHealth(context.Context, *elb.DescribeTargetHealthInput, ...func(*elb.Options)) (*elb.DescribeTargetHealthOutput, error)
}

const (
	atOnce = 8   // requests for health
	page   = 400 // target groups in one answer, the most that there are
)

// Targets finds shards' target groups by their names, remembers where they are, and asks for their health.
type Targets struct {
	client Client
	names  func(shard string) []string

	mu   sync.Mutex
	arns map[string]string // by name
}

var _ keeper.Targets = (*Targets)(nil)

// New returns the targets of shards whose target groups have any of the names that are given: a shard has
// another one when its port or its load balancer changes, and both while that is under way.
func New(client Client, names func(shard string) []string) *Targets {
	return &Targets{client: client, names: names, arns: map[string]string{}}
}

// Targets implements keeper.Targets. A shard without a target group is not in the answer. A target group
// that has no target can serve nobody, and counts as one with a target that is not healthy. Targets that are
// leaving do not count.
func (t *Targets) Targets(ctx context.Context, shards []string) (map[string]keeper.Count, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known(shards) {
		if err := t.find(ctx); err != nil {
			return nil, err
		}
	}
	counts, err := t.ask(ctx, shards)
	var gone *types.TargetGroupNotFoundException
	if errors.As(err, &gone) { // a change took one away
		if err := t.find(ctx); err != nil {
			return nil, err
		}
		counts, err = t.ask(ctx, shards)
	}
	return counts, err
}

// known says whether a target group of every shard is known.
func (t *Targets) known(shards []string) bool {
	for _, s := range shards {
		if len(t.of(s)) == 0 {
			return false
		}
	}
	return true
}

func (t *Targets) of(shard string) []string {
	var arns []string
	for _, name := range t.names(shard) {
		if arn, ok := t.arns[name]; ok {
			arns = append(arns, arn)
		}
	}
	return arns
}

// find lists the target groups of the account in the region: asking for names fails when one is not there.
func (t *Targets) find(ctx context.Context) error {
	arns := map[string]string{}
	in := &elb.DescribeTargetGroupsInput{PageSize: aws.Int32(page)}
	for {
		out, err := t.client.DescribeTargetGroups(ctx, in)
		if err != nil {
			return fmt.Errorf("list the target groups: %w", err)
		}
		for _, g := range out.TargetGroups {
			arns[aws.ToString(g.TargetGroupName)] = aws.ToString(g.TargetGroupArn)
		}
		if aws.ToString(out.NextMarker) == "" {
			t.arns = arns
			return nil
		}
		in.Marker = out.NextMarker
	}
}

func (t *Targets) ask(ctx context.Context, shards []string) (map[string]keeper.Count, error) {
	var mu sync.Mutex
	counts := map[string]keeper.Count{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, shard := range shards {
		for _, arn := range t.of(shard) {
			g.Go(func() error {
				out, err := t.client.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &arn})
				if err != nil {
					return fmt.Errorf("the health of shard %s's targets: %w", shard, err)
				}
				mu.Lock()
				defer mu.Unlock()
				counts[shard] = add(counts[shard], out.TargetHealthDescriptions)
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for shard, c := range counts {
		if c.Targets == 0 {
			counts[shard] = keeper.Count{Targets: 1}
		}
	}
	return counts, nil
}

func add(c keeper.Count, targets []types.TargetHealthDescription) keeper.Count {
	for _, d := range targets {
		if d.TargetHealth == nil {
			continue
		}
		switch d.TargetHealth.State {
		case types.TargetHealthStateEnumHealthy:
			c.Healthy++
			c.Targets++
		case types.TargetHealthStateEnumDraining, types.TargetHealthStateEnumUnused: // leaving, or not there for anybody
		default:
			c.Targets++
		}
	}
	return c
}
