// Package usage reads from CloudWatch how much of its quotas an account uses, where Service Quotas names a metric.
//
// Permission: cloudwatch:GetMetricData, which cannot be granted for single metrics.
package usage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/audit/live"
)

// Client is the part of *cloudwatch.Client that is needed.
type Client interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

const (
	window  = 3 * time.Hour // services count their resources every few minutes, some once an hour
	period  = 5 * time.Minute
	queries = 500 // in one request (CloudWatch API, GetMetricData)
	pages   = 20  // of one request's answer
)

// Metrics reads the latest values of metrics.
type Metrics struct {
	client Client
	now    func() time.Time
}

var _ live.Usages = (*Metrics)(nil)

// New returns the metrics of the client's account and region. now is the clock.
func New(client Client, now func() time.Time) *Metrics { return &Metrics{client, now} }

// Usages implements live.Usages. A metric that says nothing within three hours is left out.
func (m *Metrics) Usages(ctx context.Context, metrics map[string]live.Metric) (map[string]float64, error) {
	keys := slices.Sorted(maps.Keys(metrics))
	values := map[string]float64{}
	for chunk := range slices.Chunk(keys, queries) {
		if err := m.read(ctx, chunk, metrics, values); err != nil {
			return nil, fmt.Errorf("cloudwatch:GetMetricData: %w", err)
		}
	}
	return values, nil
}

func (m *Metrics) read(ctx context.Context, keys []string, metrics map[string]live.Metric, values map[string]float64) error {
	end := m.now()
	in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(end.Add(-window)), EndTime: &end, ScanBy: types.ScanByTimestampDescending}
	byID := map[string]string{}
	for i, key := range keys {
		metric := metrics[key]
		id := fmt.Sprintf("m%d", i)
		byID[id] = key
		statistic := metric.Statistic
		if statistic == "" {
			statistic = string(types.StatisticMaximum)
		}
		in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{
			Metric: &types.Metric{Namespace: aws.String(metric.Namespace), MetricName: aws.String(metric.Name), Dimensions: dimensions(metric.Dimensions)},
			Period: aws.Int32(int32(period / time.Second)), Stat: &statistic}})
	}
	for range pages {
		out, err := m.client.GetMetricData(ctx, in)
		if err != nil {
			return err
		}
		for _, r := range out.MetricDataResults {
			key, ok := byID[aws.ToString(r.Id)]
			if _, have := values[key]; ok && !have && len(r.Values) > 0 {
				values[key] = r.Values[0]
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
	return errors.New("the answer does not end")
}

func dimensions(d map[string]string) []types.Dimension {
	var out []types.Dimension
	for _, name := range slices.Sorted(maps.Keys(d)) {
		out = append(out, types.Dimension{Name: aws.String(name), Value: aws.String(d[name])})
	}
	return out
}
