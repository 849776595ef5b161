package telemetry

import (
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

// metadata tells CloudWatch which members of a line are metrics (CloudWatch User Guide, "Specification:
// Embedded metric format").
type metadata struct {
	Timestamp int64       `json:"Timestamp"` // Unix milliseconds
	Metrics   []directive `json:"CloudWatchMetrics"`
}

type directive struct {
	Namespace  string       `json:"Namespace"`
	Dimensions [][]string   `json:"Dimensions"`
	Metrics    []definition `json:"Metrics"`
}

type definition struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// values are the metrics. Their dimensions are members of the record.
type values struct {
	Requests     *int     `json:"Requests,omitempty"`
	Errors       *int     `json:"Errors,omitempty"`
	Fallbacks    *int     `json:"Fallbacks,omitempty"`
	Refused      *int     `json:"Refused,omitempty"`
	PoisonedSeen *int     `json:"Poisoned,omitempty"`
	Latency      *float64 `json:"Latency,omitempty"`
	KnowledgeAge *int64   `json:"KnowledgeAge,omitempty"`
}

var (
	ofCell  = [][]string{{"service", "cell"}}
	ofShard = [][]string{{"service", "cell"}, {"service", "cell", "shard"}}
)

// The lists of metrics do not change, so that they are made once.
var (
	refusedMetrics = []definition{{"Refused", "Count"}, {"Poisoned", "Count"}}
	firstMetrics   = []definition{{"Requests", "Count"}, {"Errors", "Count"}, {"Fallbacks", "Count"}, {"Poisoned", "Count"}, {"Latency", "Milliseconds"}, {"KnowledgeAge", "Milliseconds"}}
	furtherMetrics = []definition{{"Requests", "Count"}, {"Errors", "Count"}, {"Fallbacks", "Count"}, {"Latency", "Milliseconds"}}
)

func describe(now time.Time, dimensions [][]string, metrics []definition) *metadata {
	return &metadata{now.UnixMilli(), []directive{{Namespace, dimensions, metrics}}}
}

// measure adds the metrics of the first attempt, or of a refusal without any.
func (l *line) measure(o routing.Outcome, now time.Time) {
	l.PoisonedSeen = count(o.Poisoned)
	if len(o.Attempts) == 0 {
		l.AWS, l.Refused = describe(now, ofCell, refusedMetrics), count(o.Err != nil && !o.Left)
		return
	}
	age := o.Age.Milliseconds()
	l.AWS, l.KnowledgeAge = describe(now, ofShard, firstMetrics), &age
	l.of(o, 0)
}

// further is the metrics of an attempt after the first.
func (r *Requests) further(o routing.Outcome, i int, now time.Time) line {
	l := line{AWS: describe(now, ofShard, furtherMetrics), RequestID: o.RequestID, Service: r.c.Service, Cell: r.c.Cell}
	l.of(o, i)
	return l
}

func (l *line) of(o routing.Outcome, i int) {
	a := o.Attempts[i]
	took := milliseconds(a.Took)
	l.Shard, l.Requests, l.Errors, l.Latency = a.Shard, count(true), count(failed(a)), &took
	// With fan-out everybody is asked, and nobody instead of another.
	l.Fallbacks = count(!o.Fanout && i+1 < len(o.Attempts))
}

var numbers = [2]int{0, 1}

func count(yes bool) *int {
	if yes {
		return &numbers[1]
	}
	return &numbers[0]
}
