package audit

import "fmt"

// Level is how bad a finding is.
type Level uint8

// The levels, from what is as it should be to what cannot be deployed.
const (
	Info    Level = iota // shared by design; listed with its reason
	Review               // could not be judged: a person has to look
	Warning              // shared identity or configuration, or near a limit
	Error                // shared data path, or past an adjustable limit
	Fatal                // past a limit that AWS does not raise
)

var levelNames = [...]string{"info", "review", "warning", "error", "fatal"}

// String is the level's name in reports and flags.
func (l Level) String() string { return levelNames[l] }

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level's name.
func (l *Level) UnmarshalText(b []byte) error {
	for i, name := range levelNames {
		if name == string(b) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no level", b)
}

// Schema names the form of the JSON report. It changes when a field is removed or changes its meaning;
// new fields do not change it.
const Schema = "cellwall.audit/v1"

// Report is what an audit found. Its JSON form is documented in docs/audit.md.
type Report struct {
	Schema   string    `json:"schema"`
	Summary  Summary   `json:"summary"`
	Findings []Finding `json:"findings"` // worst first
	Pools    []Pool    `json:"pools"`
	Skipped  []string  `json:"skipped"`           // files that are no templates
	Mapping  []Mapped  `json:"mapping,omitempty"` // the mapping's rules, as given
	// Proposal is a mapping that would fit, where nothing says who is who.
	Proposal *Proposal `json:"proposal,omitempty"`
	// Variants are what was read of each, when several were audited; Summary has the sums, and each shard once.
	Variants []VariantRead `json:"variants,omitempty"`
}

// Summary counts what was read and found.
type Summary struct {
	Stacks     int            `json:"stacks"`
	Resources  int            `json:"resources"`
	References int            `json:"references"`
	Shards     []Shard        `json:"shards"`
	Findings   map[string]int `json:"findings"` // by level, every level present; without the suppressed ones
	Suppressed int            `json:"suppressed"`
}

// Finding is one shared resource, one limit, or one thing that could not be judged.
type Finding struct {
	Rule     string    `json:"rule"`
	Level    Level     `json:"level"`
	Message  string    `json:"message"`
	Resource *Resource `json:"resource,omitempty"`
	Shards   []Shard   `json:"shards,omitempty"` // that depend on it
	Paths    []Path    `json:"paths,omitempty"`  // one shortest for each shard; fewer when there are very many in all
	Limit    *Limit    `json:"limit,omitempty"`
	Reason   string    `json:"reason,omitempty"` // why the level is not the rule's own
	Hits     *Hits     `json:"hits,omitempty"`   // whom it reaches; nil when that is nobody's shard
	Fix      string    `json:"fix,omitempty"`
	// Fingerprint names this finding from run to run: 32 hexadecimal digits, see fingerprint.
	Fingerprint string       `json:"fingerprint"`
	Suppressed  *Suppression `json:"suppressed,omitempty"` // why it does not count; nil when it does
	// Variants are those in which it holds at this level; none when it does in all that were audited.
	Variants []string `json:"variants,omitempty"`
	home     int      // from 1, the variant of which the rest is; 0 for none
}

// Resource says where something stands. Stack is empty for what no template that was read defines.
type Resource struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"` // in File, from 1, where it is known
	Stack     string `json:"stack,omitempty"`
	LogicalID string `json:"logicalId,omitempty"`
	Type      string `json:"type,omitempty"`
	Name      string `json:"name,omitempty"` // physical name, ARN or id as far as known
	Path      string `json:"path,omitempty"` // construct path as far as known
}

// Path shows that a shard depends on the finding's resource: the first step is a resource of the shard,
// the last one is the resource.
type Path struct {
	Shard Shard  `json:"shard"`
	File  string `json:"file,omitempty"` // template of the first step
	Steps []Step `json:"steps"`
}

// Step is one node of a path.
type Step struct {
	Kind      string `json:"kind"` // resource, parameter, output, condition, external or stack
	Stack     string `json:"stack,omitempty"`
	LogicalID string `json:"logicalId,omitempty"`
	Type      string `json:"type,omitempty"`
	Name      string `json:"name,omitempty"`
	// How is what leads here from the step before, and At the property path at which it stands: in the
	// step before, or here where How is "attached by". Both are empty in the first step.
	How string `json:"how,omitempty"`
	At  string `json:"at,omitempty"`
}

// Limit is a number that AWS bounds.
type Limit struct {
	Name  string `json:"name"`
	Used  int    `json:"used"`
	Max   int    `json:"max"`
	Hard  bool   `json:"hard"`
	Quota string `json:"quota"` // Service Quotas code
	// Most is the upper end where a deployment decides how much is used; 0 where Used is the number.
	Most      int    `json:"most,omitempty"`
	ID        string `json:"id"`        // in the catalogue, package limitdata
	Source    string `json:"source"`    // of Max: default, fleet or live
	Certainty string `json:"certainty"` // of the default: high, medium or low
	Error     string `json:"error,omitempty"`
}

// Hits is the share of all that a finding reaches.
type Hits struct {
	Shards int `json:"shards"`
	Of     int `json:"of"` // shards that were read
	Cells  int `json:"cells"`
	// Tenants is the share of the cells' tenants, from 0 to 1, that have at least one of these shards, and Lost of
	// those that have no other; nil when nothing says how many shards serve a tenant.
	Tenants *float64 `json:"tenants,omitempty"`
	Lost    *float64 `json:"lost,omitempty"`
	// lost and tenants are the same shares of all that was read, not only of the cells that are reached; as if one
	// shard served each tenant where nothing says how many do.
	lost, tenants float64
}

// Pool is what the functions of one account and region reserve together.
type Pool struct {
	Account   string     `json:"account"`
	Region    string     `json:"region"`
	Limit     int        `json:"limit"`     // concurrent executions of the account
	Free      int        `json:"free"`      // that Lambda keeps unreserved
	Reserved  int        `json:"reserved"`  // sum over all functions
	Unseen    int        `json:"unseen"`    // of Reserved, what the fleet file says of stacks that were not read
	Left      int        `json:"left"`      // Limit − Free − Reserved; negative when it does not fit
	Functions int        `json:"functions"` // that reserve
	Unknown   int        `json:"unknown"`   // whose reservation only a deployment knows
	Source    string     `json:"source"`    // of Limit: default, fleet or live
	Cells     []CellPool `json:"cells"`
	Variants  []string   `json:"variants,omitempty"` // that have it so; none when all do
}

// CellPool is the part of a pool that one cell reserves; Cell is "" for what is no cell's.
type CellPool struct {
	Cell     string `json:"cell"`
	Reserved int    `json:"reserved"`
}

// AtLeast counts the findings at or above a level that nothing suppresses.
func (r *Report) AtLeast(l Level) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Level >= l && r.Findings[i].Suppressed == nil {
			n++
		}
	}
	return n
}
