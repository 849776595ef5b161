package telemetry

import "encoding/json"

// Measures is what a cell's keeper tells of the cell; a nil member is not known and not told. The units are those of
// the metrics of the same names.
type Measures struct {
	SnapshotAge   *float64 // seconds
	DirectoryAge  *float64 // seconds
	HealthAge     *float64 // seconds
	KeyAge        *float64 // days
	LoadVariation *float64 // percent
}

// measured is the line of them.
type measured struct {
	AWS           *metadata `json:"_aws,omitempty"`
	Time          string    `json:"time"`
	Level         string    `json:"level"`
	Msg           string    `json:"msg"` // "measures"
	Service       string    `json:"service"`
	Cell          string    `json:"cell"`
	SnapshotAge   *float64  `json:"SnapshotAge,omitempty"`
	DirectoryAge  *float64  `json:"DirectoryAge,omitempty"`
	HealthAge     *float64  `json:"HealthAge,omitempty"`
	KeyAge        *float64  `json:"KeyAge,omitempty"`
	LoadVariation *float64  `json:"LoadVariation,omitempty"`
}

// Measures writes one line, whose members are metrics of the cell. CloudWatch has no unit for days.
func (r *Requests) Measures(m Measures) {
	now := r.c.Now()
	l := measured{Time: timestamp(now), Level: "INFO", Msg: "measures", Service: r.c.Service, Cell: r.c.Cell,
		SnapshotAge: m.SnapshotAge, DirectoryAge: m.DirectoryAge, HealthAge: m.HealthAge, KeyAge: m.KeyAge, LoadVariation: m.LoadVariation}
	var told []definition
	for _, d := range []struct {
		value *float64
		definition
	}{
		{m.SnapshotAge, definition{"SnapshotAge", "Seconds"}}, {m.DirectoryAge, definition{"DirectoryAge", "Seconds"}},
		{m.HealthAge, definition{"HealthAge", "Seconds"}}, {m.KeyAge, definition{"KeyAge", "None"}}, {m.LoadVariation, definition{"LoadVariation", "Percent"}},
	} {
		if d.value != nil { // CloudWatch refuses a line that lacks a metric which it names
			told = append(told, d.definition)
		}
	}
	if len(told) == 0 {
		return
	}
	if r.c.Metrics {
		l.AWS = describe(now, ofCell, told)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return // what is no number
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.c.Out.Write(append(text, '\n'))
}
