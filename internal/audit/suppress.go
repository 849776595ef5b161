package audit

import (
	"cmp"
	"slices"
)

// Kinds of suppression.
const (
	ByWaiver          = "waiver"          // a line of a waivers file
	ByAcknowledgement = "acknowledgement" // in the templates' metadata
	ByBaseline        = "baseline"        // a former report has it
)

// Suppression says why a finding does not count for the threshold. It stays in the report.
type Suppression struct {
	Kind    string `json:"kind"`              // waiver, acknowledgement or baseline
	Reason  string `json:"reason,omitempty"`  // as it was written down; none for a baseline
	Expires string `json:"expires,omitempty"` // last day on which it holds, such as 2027-03-31
}

var (
	ruleExpired    = rule{"WV001", Warning, "expired waiver", "mend what it waived, or decide again and write down until when"}
	ruleUnused     = rule{"WV002", Warning, "unused waiver", "remove it: what it waived is gone or has another name, and it would hide the next one"}
	ruleIncomplete = rule{"WV003", Warning, "acknowledgement without a reason or an end", "write the reason and its end: \"moves to shards of its own, expires 2027-03-31\""}

	waiverRules = []rule{ruleExpired, ruleUnused, ruleIncomplete}
)

// settle gives each finding its fingerprint and suppressions, adds what is wrong with those, sorts and counts.
func (r *Report) settle(acks []Waiver, opt *Options) {
	for i := range r.Findings {
		r.Findings[i].Fingerprint = r.Findings[i].fingerprint()
	}
	waivers := slices.Concat(opt.Waivers, acks)
	fresh := waive(r.Findings, waivers, opt.Today)
	for i := range fresh {
		fresh[i].Fingerprint = fresh[i].fingerprint()
	}
	r.Findings = append(r.Findings, fresh...)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return compareFindings(&a, &b) })
	opt.Baseline.apply(r.Findings)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(a.suppressedLast(), b.suppressedLast())
	})
	r.Summary.count(r.Findings)
}

func (f *Finding) suppressedLast() int {
	if f.Suppressed != nil {
		return 1
	}
	return 0
}
