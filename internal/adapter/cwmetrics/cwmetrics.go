// Package cwmetrics tells from CloudWatch's metrics how often each shard's slice turned invocations away, how old the
// oldest message in its queue is, and how many requests routers sent to the shard.
//
// What it tells is one to two minutes old: Lambda, SQS and the routers' log lines are counted by the minute. Permission:
// cloudwatch:GetMetricData, which cannot be granted for single metrics.
package cwmetrics

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/telemetry"
)

// Client is the part of *cloudwatch.Client that is needed.
type Client interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

const (
	period  = time.Minute
	window  = 5 * time.Minute  // of which the latest minute that was reported counts
	past    = 15 * time.Minute // whose requests are counted
	queries = 500              // in one request (CloudWatch API, GetMetricData)
	pages   = 20               // of one request's answer
)

// Cell is whose metrics are read: the dimensions of what its routers tell, and the names of its shards' resources.
type Cell struct {
	Service, Name   string
	Function, Queue func(shard string) string
}

// Metrics reads the metrics of shards.
type Metrics struct {
	client Client
	cell   Cell
	now    func() time.Time
}

var (
	_ keeper.Throttles = (*Metrics)(nil)
	_ keeper.Queues    = (*Metrics)(nil)
	_ keeper.Loads     = (*Metrics)(nil)
)

// New returns the metrics of a cell's shards.
func New(client Client, cell Cell) *Metrics { return &Metrics{client, cell, time.Now} }

// Throttles implements keeper.Throttles. A slice that nobody invoked was not throttled.
func (m *Metrics) Throttles(ctx context.Context, shards []string) (map[string]float64, error) {
	return m.ask(ctx, shards, window, latest, func(shard string) types.MetricStat {
		return stat("AWS/Lambda", "Throttles", "Sum", "FunctionName", m.cell.Function(shard))
	})
}

// QueueAges implements keeper.Queues. A queue that SQS says nothing of is empty.
func (m *Metrics) QueueAges(ctx context.Context, shards []string) (map[string]time.Duration, error) {
	seconds, err := m.ask(ctx, shards, window, latest, func(shard string) types.MetricStat {
		return stat("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", "QueueName", m.cell.Queue(shard))
	})
	ages := make(map[string]time.Duration, len(seconds))
	for shard, s := range seconds {
		ages[shard] = time.Duration(s * float64(time.Second))
	}
	return ages, err
}

// Requests implements keeper.Loads, of the last quarter of an hour.
func (m *Metrics) Requests(ctx context.Context, shards []string) (map[string]float64, error) {
	return m.ask(ctx, shards, past, total, func(shard string) types.MetricStat {
		return stat(telemetry.Namespace, "Requests", "Sum", "service", m.cell.Service, "cell", m.cell.Name, "shard", shard)
	})
}

// stat is a metric by the minute. Its dimensions are names, each with its value.
func stat(namespace, metric, statistic string, dimensions ...string) types.MetricStat {
	s := types.MetricStat{Metric: &types.Metric{Namespace: &namespace, MetricName: &metric}, Period: aws.Int32(int32(period / time.Second)), Stat: &statistic}
	for i := 0; i < len(dimensions); i += 2 {
		s.Metric.Dimensions = append(s.Metric.Dimensions, types.Dimension{Name: &dimensions[i], Value: &dimensions[i+1]})
	}
	return s
}

// A sum makes one number of a metric's values, of which each page of an answer has some, the latest first. before is
// what it made of the pages before, the first of which has none.
type sum func(before float64, first bool, values []float64) float64

func latest(before float64, first bool, values []float64) float64 {
	if first {
		return max(0, values[0])
	}
	return before
}

func total(before float64, _ bool, values []float64) float64 {
	for _, v := range values {
		before += max(0, v)
	}
	return before
}

// ask is one number of each shard's metric of the last while, 0 when it has none.
func (m *Metrics) ask(ctx context.Context, shards []string, while time.Duration, sum sum, of func(shard string) types.MetricStat) (map[string]float64, error) {
	end := m.now()
	values := make(map[string]float64, len(shards))
	for some := range slices.Chunk(shards, queries) {
		byID := map[string]string{}
		in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(end.Add(-while)), EndTime: &end, ScanBy: types.ScanByTimestampDescending}
		for i, shard := range some {
			id, s := fmt.Sprintf("m%d", i), of(shard)
			byID[id] = shard
			in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{Id: &id, MetricStat: &s})
			values[shard] = 0
		}
		if err := m.read(ctx, in, byID, sum, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (m *Metrics) read(ctx context.Context, in *cloudwatch.GetMetricDataInput, byID map[string]string, sum sum, values map[string]float64) error {
	seen := map[string]bool{}
	for range pages {
		out, err := m.client.GetMetricData(ctx, in)
		if err != nil {
			return fmt.Errorf("read the metrics: %w", err)
		}
		for _, r := range out.MetricDataResults {
			shard, asked := byID[aws.ToString(r.Id)]
			switch {
			case !asked:
				return fmt.Errorf("read the metrics: CloudWatch answers with %q, which was not asked for", aws.ToString(r.Id))
			case r.StatusCode == types.StatusCodeInternalError || r.StatusCode == types.StatusCodeForbidden:
				return fmt.Errorf("read the metrics of shard %s: CloudWatch says %s", shard, r.StatusCode)
			case len(r.Values) > 0:
				values[shard] = sum(values[shard], !seen[shard], r.Values)
				seen[shard] = true
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
	return fmt.Errorf("read the metrics: CloudWatch's answer has more than %d pages", pages)
}
