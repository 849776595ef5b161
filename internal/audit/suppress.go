package audit

// Suppression says why a finding does not count for the threshold. It stays in the report.
type Suppression struct {
	Kind    string `json:"kind"`              // waiver, acknowledgement or baseline
	Reason  string `json:"reason,omitempty"`  // as it was written down; "" for a baseline
	Expires string `json:"expires,omitempty"` // last day on which it holds, 2006-01-02; "" for none
}
