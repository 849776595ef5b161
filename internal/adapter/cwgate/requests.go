package cwgate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/telemetry"
)

const (
	// quiet is the time in which somebody asks a cell for something, or a probe does. Routers that told of nothing for so long are
	// not watched.
	quiet = 15 * time.Minute
	// recount is in how many looks requests are counted once: a metric is told by the minute.
	recount = 4
)

// counted is how many requests a cell had since a time.
type counted struct {
	since, at time.Time
	requests  int64
}

// period is by what a count since a time is divided. CloudWatch keeps minutes for 15 days, five minutes for 63, hours for 455
// (CloudWatch User Guide, "Metrics retention"); and an answer has at most 1,440 of them up to the 60th day.
func period(window time.Duration) time.Duration {
	switch {
	case window <= 24*time.Hour:
		return time.Minute
	case window <= 5*24*time.Hour:
		return 5 * time.Minute
	}
	return time.Hour
}

// within is the whole periods of a window.
func within(since, now time.Time, p time.Duration) (start, end time.Time) {
	if start = since.UTC().Truncate(p); start.Before(since) {
		start = start.Add(p)
	}
	return start, now.UTC().Truncate(p)
}

// requests is how many requests of tenants reached a shard since a time: in whole periods, so that none of before is counted,
// and what comes late is counted when it is there. What a router sent again to another shard is one request. missing is why the
// number means nothing, if so.
func (g *Gate) requests(ctx context.Context, c *cell, since time.Time) (n int64, missing string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := g.now()
	if k := c.counted; k.since.Equal(since) && !k.at.IsZero() && now.Sub(k.at) < recount*g.fresh && !k.at.After(now) {
		return k.requests, ""
	}
	p := period(now.Sub(since))
	start, end := within(since, now, p)
	if !start.Before(end) {
		return 0, ""
	}
	n, any, err := g.count(ctx, c, start, end, p)
	switch {
	case err != nil:
		return 0, told("requests", err)
	case !any && now.Sub(since) >= quiet:
		return 0, fmt.Sprintf("requests (routers told of none in %s; a probe would send some)", now.Sub(since).Truncate(time.Second))
	}
	c.counted = counted{since, now, n}
	return n, ""
}

// count sums what routers told of a cell in whole periods.
func (g *Gate) count(ctx context.Context, c *cell, start, end time.Time, p time.Duration) (n int64, any bool, err error) {
	client, err := c.at.borrow(ctx)
	if err != nil {
		return 0, false, err
	}
	in := &cloudwatch.GetMetricDataInput{StartTime: &start, EndTime: &end, ScanBy: types.ScanByTimestampDescending}
	series := map[string]map[time.Time]float64{}
	for id, metric := range map[string]string{"requests": "Requests", "fallbacks": "Fallbacks"} {
		series[id] = map[time.Time]float64{}
		in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{
			Metric: &types.Metric{Namespace: aws.String(telemetry.Namespace), MetricName: &metric, Dimensions: []types.Dimension{
				{Name: aws.String("service"), Value: &g.service}, {Name: aws.String("cell"), Value: &c.name}}},
			Period: aws.Int32(int32(p / time.Second)), Stat: aws.String("Sum")}})
	}
	if err := g.metrics(ctx, client, in, series); err != nil {
		return 0, false, fmt.Errorf("GetMetricData: %w", err)
	}
	sum := 0.0
	for at, sent := range series["requests"] {
		if at.Before(start) || at.Add(p).After(end) || !at.Equal(at.Truncate(p)) {
			continue // not asked for
		}
		any = true
		sum += math.Floor(max(0, sent-series["fallbacks"][at]))
	}
	return int64(min(sum, 1<<53)), any, nil
}

// metrics reads the series. Of a time that is told twice, the smaller value counts for requests and the larger for fallbacks.
func (g *Gate) metrics(ctx context.Context, client Client, in *cloudwatch.GetMetricDataInput, series map[string]map[time.Time]float64) error {
	for range pages {
		out, err := ask(ctx, g, patient, func(ctx context.Context) (*cloudwatch.GetMetricDataOutput, error) {
			return client.GetMetricData(ctx, in)
		})
		if err != nil {
			return err
		}
		for _, r := range out.MetricDataResults {
			id := aws.ToString(r.Id)
			values, asked := series[id]
			switch {
			case !asked:
				return fmt.Errorf("CloudWatch answers with %q, which was not asked for", id)
			case r.StatusCode == types.StatusCodeInternalError || r.StatusCode == types.StatusCodeForbidden:
				return fmt.Errorf("CloudWatch says %s of %s", r.StatusCode, id)
			case len(r.Values) != len(r.Timestamps):
				return errors.New("CloudWatch answers with values that have no time")
			}
			for i, v := range r.Values {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					return fmt.Errorf("CloudWatch says that there were %v %s", v, id)
				}
				at := r.Timestamps[i].UTC()
				if before, twice := values[at]; twice {
					if v = max(v, before); id == "requests" {
						v = min(r.Values[i], before)
					}
				}
				values[at] = v
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
	return fmt.Errorf("the answer has more than %d pages", pages)
}

// borrow is the place's client for who asks beside the others.
func (p *place) borrow(ctx context.Context) (Client, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.turn }()
	return p.reach(ctx)
}
