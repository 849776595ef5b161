package telemetry

import (
	"encoding/json"
	"time"

	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// verdict is the event of a tenant that is suspected of taking shards down.
type verdict struct {
	AWS     *metadata `json:"_aws,omitempty"`
	Time    string    `json:"time"`
	Level   string    `json:"level"`
	Msg     string    `json:"msg"`
	Service string    `json:"service"`
	Cell    string    `json:"cell"`
	Tenant  string    `json:"tenant"`
	Shards  []string  `json:"shards"` // that went down under it
	Downs   int       `json:"downs"`
	Chance  float64   `json:"chance"` // that it has nothing to do with them, at most
	Firm    bool      `json:"firm"`
	Until   string    `json:"until"`
	Repeats int       `json:"repeats"`
	Count   int       `json:"PoisonVerdicts"`
}

// VerdictMessage is the msg of a verdict's line, by which a log subscription finds it; quarantine.ParseLine reads
// it. Its tenant is the id itself where HashTenants is off.
const VerdictMessage = quarantine.Message

// Verdict is for poison.Config.OnVerdict: one line for each, which counts as the metric PoisonVerdicts of the cell.
func (r *Requests) Verdict(v poison.Verdict) {
	now := r.c.Now()
	l := verdict{
		Time: timestamp(now), Level: "WARN", Msg: VerdictMessage, Service: r.c.Service, Cell: r.c.Cell, Tenant: r.tenant(v.Tenant),
		Shards: v.Shards, Downs: v.Downs, Chance: v.Chance, Firm: v.Firm, Until: timestamp(v.Until), Repeats: v.Repeats, Count: 1,
	}
	if r.c.Metrics {
		l.AWS = describe(now, ofCell, verdictMetrics)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return // a chance that is no number
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.c.Out.Write(append(text, '\n'))
}

var verdictMetrics = []definition{{"PoisonVerdicts", "Count"}}

// timestamp is RFC 3339 with milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
