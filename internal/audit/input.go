package audit

import (
	"time"

	"cellwall.dev/cellwall/internal/template"
)

// Stack is one CloudFormation stack as it would be deployed.
type Stack struct {
	Name    string // CloudFormation's name of the stack
	Path    string // construct path, CELL/shard-SID; "" when unknown
	File    string // where the template was read, for messages; unique within an Input
	Account string // 12 digits, or "" when unknown
	Region  string // "" when unknown
	Tags    map[string]string
	Values  map[string]string // parameter values given at deployment
	Paths   map[string]string // construct path of each logical id, as far as known
	Nested  *NestedIn         // set when another stack holds this one
	After   []StackID         // stacks that the manifest has deployed before this one
	// Acknowledged are the rules that the stack's author accepted for its constructs.
	Acknowledged []Acknowledgement
	Size         int // of the template in bytes, as it was read; 0 when unknown
	Template     template.Template
}

// StackID finds a stack of the same Input.
type StackID struct{ Name, File string }

// NestedIn says which resource of which stack a nested stack is.
type NestedIn struct {
	Name     string // of the parent
	File     string // of the parent
	Resource string // logical id, an AWS::CloudFormation::Stack
}

// Note is something that could not be read and therefore not be judged.
type Note struct {
	File string // where
	What string
}

// Input is everything that one audit looks at.
type Input struct {
	Stacks  []Stack
	Notes   []Note
	Skipped []string // files that are no templates
}

// Options are what the templates do not say.
type Options struct {
	// Concurrency is the concurrent executions that Lambda allows per account, by account id; an
	// account without an entry has DefaultConcurrency.
	Concurrency map[string]int
	// Live is what the accounts themselves say of their limits; nil when they were not asked.
	Live *Live
	// PerTenant is how many shards serve each tenant of a cell, by the cell's name; "" is every other cell. Without
	// it a finding does not say which share of the tenants it hits.
	PerTenant map[string]int
	// Waivers and Baseline decide which findings do not count.
	Waivers  []Waiver
	Baseline *Baseline
	// Today is the day on which waivers are judged. On the zero day none has expired.
	Today time.Time
	// Mapping says who is who, the first rule first, before the stacks' own tags, paths and names.
	Mapping []MapRule
	// Before are the stacks as they are deployed, when the deployment over them is to be judged as well; nil when not.
	Before []Stack
	// Fleet is what should have been read, as far as somebody knows; nil when nobody does.
	Fleet *Fleet
}

// DefaultConcurrency is Lambda's default quota of concurrent executions per account and region
// (L-B99A9384); UnreservedConcurrency is what Lambda keeps free of reservations ("Configuring reserved
// concurrency", AWS Lambda Developer Guide).
const (
	DefaultConcurrency    = 1000
	UnreservedConcurrency = 100
)

// Placeholders for an environment that is decided at deployment, as CDK writes them.
const (
	unknownAccount = "unknown-account"
	unknownRegion  = "unknown-region"
)

// env is an account and region, placeholders included.
type env struct{ account, region string }

func (s *Stack) env() env {
	e := env{s.Account, s.Region}
	if e.account == "" {
		e.account = unknownAccount
	}
	if e.region == "" {
		e.region = unknownRegion
	}
	return e
}

// scope is where the stack's expressions are evaluated.
func (s *Stack) scope() template.Scope {
	e := s.env()
	partition, suffix := partitionOf(e.region)
	return template.Scope{
		Template: &s.Template,
		Values:   s.Values,
		Pseudo: map[string]string{
			"AWS::AccountId": e.account,
			"AWS::Region":    e.region,
			"AWS::Partition": partition,
			"AWS::URLSuffix": suffix,
			"AWS::StackName": s.Name,
		},
	}
}
