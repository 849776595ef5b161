package telemetry

import (
	"encoding/json"

	"cellwall.dev/cellwall/internal/quarantine"
)

// quarantineEvent is what became of a tenant that is suspected of taking shards down.
type quarantineEvent struct {
	Time    string   `json:"time"`
	Level   string   `json:"level"`
	Msg     string   `json:"msg"` // "quarantine"
	Service string   `json:"service"`
	Cell    string   `json:"cell"`
	What    string   `json:"what"`
	Tenant  string   `json:"tenant"`
	Shards  []string `json:"shards,omitempty"`
	Until   string   `json:"until,omitempty"`
	Why     string   `json:"why,omitempty"`
}

// quarantined is how many tenants there are.
type quarantined struct {
	AWS         *metadata `json:"_aws,omitempty"`
	Time        string    `json:"time"`
	Level       string    `json:"level"`
	Msg         string    `json:"msg"` // "quarantined"
	Service     string    `json:"service"`
	Cell        string    `json:"cell"`
	Quarantined int       `json:"Quarantined"`
	Suspects    int       `json:"Suspects"`
}

var quarantineMetrics = []definition{{"Quarantined", "Count"}, {"Suspects", "Count"}}

// Quarantine writes what the keeper did about tenants that take shards down: a line for each event, and one with how
// many tenants are suspected and in quarantine, which are metrics of the cell.
func (r *Requests) Quarantine(o quarantine.Outcome) {
	now := r.c.Now()
	var text []byte
	add := func(l any) {
		one, err := json.Marshal(l)
		if err == nil { // strings and whole numbers always encode
			text = append(append(text, one...), '\n')
		}
	}
	for _, e := range o.Events {
		l := quarantineEvent{Time: timestamp(now), Level: "WARN", Msg: "quarantine", Service: r.c.Service, Cell: r.c.Cell, What: e.What, Tenant: r.tenant(e.Tenant), Shards: e.Shards, Why: e.Why}
		if !e.Until.IsZero() {
			l.Until = timestamp(e.Until)
		}
		add(l)
	}
	sum := quarantined{Time: timestamp(now), Level: "INFO", Msg: "quarantined", Service: r.c.Service, Cell: r.c.Cell, Quarantined: o.Quarantined, Suspects: o.Suspects}
	if r.c.Metrics {
		sum.AWS = describe(now, ofCell, quarantineMetrics)
	}
	add(sum)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.c.Out.Write(text)
}
