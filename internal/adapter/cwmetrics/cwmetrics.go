// Package cwmetrics tells from CloudWatch's metrics how often each shard's slice turned invocations away and
// how old the oldest message in its queue is.
//
// What it tells is one to two minutes old: Lambda and SQS report by the minute. Permission:
// cloudwatch:GetMetricData, which cannot be granted for single metrics.
package cwmetrics

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/keeper"
)

// Client is the part of *cloudwatch.Client that is needed.
type Client interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

const (
	period  = time.Minute
	window  = 5 * time.Minute // of which the latest minute that was reported counts
	queries = 500             // in one request (CloudWatch API, GetMetricData)
	pages   = 20              // of one request's answer
)

// Metrics reads the metrics of shards.
type Metrics struct {
	client          Client
	function, queue func(shard string) string
	now             func() time.Time
}

var (
	_ keeper.Throttles = (*Metrics)(nil)
	_ keeper.Queues    = (*Metrics)(nil)
)

// New returns the metrics of the functions and the queues of those names.
func New(client Client, function, queue func(shard string) string) *Metrics {
	return &Metrics{client, function, queue, time.Now}
}

// Throttles implements keeper.Throttles. A slice that nobody invoked was not throttled.
func (m *Metrics) Throttles(ctx context.Context, shards []string) (map[string]float64, error) {
	return m.latest(ctx, shards, func(shard string) types.MetricStat {
		return stat("AWS/Lambda", "Throttles", "FunctionName", m.function(shard), "Sum")
	})
}

// QueueAges implements keeper.Queues. A queue that SQS says nothing of is empty.
func (m *Metrics) QueueAges(ctx context.Context, shards []string) (map[string]time.Duration, error) {
	seconds, err := m.latest(ctx, shards, func(shard string) types.MetricStat {
		return stat("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", m.queue(shard), "Maximum")
	})
	ages := make(map[string]time.Duration, len(seconds))
	for shard, s := range seconds {
		ages[shard] = time.Duration(s * float64(time.Second))
	}
	return ages, err
}

func stat(namespace, metric, dimension, value, statistic string) types.MetricStat {
	return types.MetricStat{
		Metric: &types.Metric{Namespace: &namespace, MetricName: &metric, Dimensions: []types.Dimension{{Name: &dimension, Value: &value}}},
		Period: aws.Int32(int32(period / time.Second)), Stat: &statistic,
	}
}

// latest is the last value of each shard's metric in the window, 0 when it has none.
func (m *Metrics) latest(ctx context.Context, shards []string, of func(shard string) types.MetricStat) (map[string]float64, error) {
	end := m.now()
	values := make(map[string]float64, len(shards))
	for len(shards) > 0 {
		n := min(len(shards), queries)
		byID := map[string]string{}
		in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(end.Add(-window)), EndTime: &end, ScanBy: types.ScanByTimestampDescending}
		for i, shard := range shards[:n] {
			id, s := fmt.Sprintf("m%d", i), of(shard)
			byID[id] = shard
			in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{Id: &id, MetricStat: &s})
			values[shard] = 0
		}
		if err := m.read(ctx, in, byID, values); err != nil {
			return nil, err
		}
		shards = shards[n:]
	}
	return values, nil
}

func (m *Metrics) read(ctx context.Context, in *cloudwatch.GetMetricDataInput, byID map[string]string, values map[string]float64) error {
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
			case len(r.Values) > 0 && !seen[shard]:
				seen[shard] = true
				values[shard] = max(0, r.Values[0])
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
	return fmt.Errorf("read the metrics: CloudWatch's answer has more than %d pages", pages)
}
