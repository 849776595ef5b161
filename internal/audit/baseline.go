package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Baseline is what a former report found. The zero value and nil know nothing.
type Baseline struct {
	known map[string][]Level // by fingerprint
}

// ReadBaseline reads a former JSON report. What was waived or acknowledged then is no part of it: a
// waiver holds as long as it says and no longer.
func ReadBaseline(report []byte) (*Baseline, error) {
	var r struct {
		Schema   string `json:"schema"`
		Findings []struct {
			Level       Level  `json:"level"`
			Fingerprint string `json:"fingerprint"`
			Suppressed  *struct {
				Kind string `json:"kind"`
			} `json:"suppressed"`
		} `json:"findings"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("not a report in JSON: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("its schema is %q, not %s: not a report of cellwall audit --json", r.Schema, Schema)
	}
	b := &Baseline{known: map[string][]Level{}}
	for _, f := range r.Findings {
		if !fingerprintForm.MatchString(f.Fingerprint) {
			return nil, errors.New("its findings have no fingerprints: an older version made it, make it anew")
		}
		if f.Suppressed == nil || f.Suppressed.Kind == ByBaseline {
			b.known[f.Fingerprint] = append(b.known[f.Fingerprint], f.Level)
		}
	}
	return b, nil
}

// apply suppresses the findings that are no worse than one of the baseline. One of the baseline stands
// for one of the report: a second of the same fingerprint is new. Findings come worst first.
func (b *Baseline) apply(fs []Finding) {
	if b == nil {
		return
	}
	left := map[string][]Level{}
	for i := range fs {
		f := &fs[i]
		if f.Suppressed != nil || f.Level == Info {
			continue
		}
		levels, ok := left[f.Fingerprint]
		if !ok {
			levels = slices.Clone(b.known[f.Fingerprint])
			slices.Sort(levels)
		}
		// the mildest that covers it, so that a worse one is left for a worse finding
		at := slices.IndexFunc(levels, func(l Level) bool { return l >= f.Level })
		if at >= 0 {
			f.Suppressed = &Suppression{Kind: ByBaseline}
			levels = slices.Delete(levels, at, at+1)
		}
		left[f.Fingerprint] = levels
	}
}
