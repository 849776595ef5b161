package elbhealth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"cellwall.dev/cellwall/internal/keeper"
)

// fake has target groups by name, each with the states of its targets.
type fake struct {
	mu      sync.Mutex
	groups  map[string][]types.TargetHealthStateEnum
	page    int
	lists   int
	listErr error
	askErr  error
}

func (f *fake) DescribeTargetGroups(_ context.Context, in *elb.DescribeTargetGroupsInput, _ ...func(*elb.Options)) (*elb.DescribeTargetGroupsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listErr != nil {
		return nil, f.listErr
	}
	if in.Marker == nil {
		f.lists++
	}
	var names []string
	for i := range 100 {
		if name := fmt.Sprintf("tg-%02d", i); f.groups[name] != nil {
			names = append(names, name)
		}
	}
	from, out := 0, &elb.DescribeTargetGroupsOutput{}
	if in.Marker != nil {
		fmt.Sscan(*in.Marker, &from)
	}
	to := min(len(names), from+f.page)
	if to < len(names) {
		out.NextMarker = aws.String(fmt.Sprint(to))
	}
	for _, name := range names[from:to] {
		out.TargetGroups = append(out.TargetGroups, types.TargetGroup{TargetGroupName: aws.String(name), TargetGroupArn: aws.String("arn:" + name)})
	}
	return out, nil
}

func (f *fake) DescribeTargetHealth(_ context.Context, in *elb.DescribeTargetHealthInput, _ ...func(*elb.Options)) (*elb.DescribeTargetHealthOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states, there := f.groups[(*in.TargetGroupArn)[len("arn:"):]]
	switch {
	case f.askErr != nil:
		return nil, f.askErr
	case !there:
		return nil, &types.TargetGroupNotFoundException{}
	}
	out := &elb.DescribeTargetHealthOutput{}
	for _, s := range states {
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, types.TargetHealthDescription{TargetHealth: &types.TargetHealth{State: s}})
	}
	return out, nil
}

const (
	healthy   = types.TargetHealthStateEnumHealthy
	unhealthy = types.TargetHealthStateEnumUnhealthy
	initial   = types.TargetHealthStateEnumInitial
	draining  = types.TargetHealthStateEnumDraining
	unused    = types.TargetHealthStateEnumUnused
)

type states = []types.TargetHealthStateEnum

// names gives shard "7" the groups tg-07 and, as after a change of its port, tg-57.
func names(shard string) []string { return []string{"tg-0" + shard, "tg-5" + shard} }

func TestTargets(t *testing.T) {
	f := &fake{page: 2, groups: map[string]states{
		"tg-01": {healthy, healthy, unhealthy, initial, draining, unused},
		"tg-02": {draining},
		"tg-03": {healthy}, "tg-53": {unhealthy},
		"tg-99": {healthy},
	}}
	targets := New(f, names)
	want := map[string]keeper.Count{"1": {Healthy: 2, Targets: 4}, "2": {Targets: 1}, "3": {Healthy: 1, Targets: 2}}
	check := func(what string, shards ...string) {
		t.Helper()
		got, err := targets.Targets(t.Context(), shards)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	check("at first", "1", "2", "3", "4")
	check("shard 4 has none yet", "1", "2", "3", "4")
	f.lists = 0
	check("all are known", "1", "2", "3")
	if f.lists != 0 {
		t.Errorf("target groups were listed %d times though all are known", f.lists)
	}
	f.groups["tg-04"] = states{healthy}
	want["4"] = keeper.Count{Healthy: 1, Targets: 1}
	check("shard 4 has one", "1", "2", "3", "4")
	delete(f.groups, "tg-53")
	want["3"] = keeper.Count{Healthy: 1, Targets: 1}
	check("a group is gone", "1", "2", "3", "4")
	delete(f.groups, "tg-02")
	delete(want, "2")
	check("a shard's only one is gone", "1", "2", "3", "4")
}

func TestTargetsThatCannotBeAsked(t *testing.T) {
	down := errors.New("no route")
	if _, err := New(&fake{page: 9, listErr: down}, names).Targets(t.Context(), []string{"1"}); !errors.Is(err, down) {
		t.Errorf("no list: %v", err)
	}
	if got, err := New(&fake{page: 9, askErr: down, groups: map[string]states{"tg-01": {healthy}}}, names).Targets(t.Context(), []string{"1"}); !errors.Is(err, down) || got != nil {
		t.Errorf("no health: %v, %v", got, err)
	}
}
