// Package limitdata is the catalogue of AWS's limits that the audit knows: what AWS publishes as the default of
// each, whether it can be raised, and how sure that is. It is data with its source beside it, and no judgement.
//
// # Guarantees
//
//  1. WellFormed: every limit has an id of its own, a scope, a unit and a source; its certainty is one of the three.
//  2. Found: Get finds each limit of All by its id, and nothing else.
//  3. Regional: In is a region's own number where there is one, and the default everywhere else.
package limitdata

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Certainty is how well a limit is known.
type Certainty string

// High is AWS's own documentation in a copy of 2025 or 2026, checked against a second source where there was one.
// Medium is documentation that others contradict or that changed lately. Low is hearsay, or a number that is no
// longer published. Only what is High can fail an audit, unless the account itself says the number.
const (
	High   Certainty = "high"
	Medium Certainty = "medium"
	Low    Certainty = "low"
)

// Limit is one limit as AWS publishes it.
type Limit struct {
	ID      string `json:"id"`      // SERVICE.THING, the catalogue's own
	Service string `json:"service"` // as people call it
	Name    string `json:"name"`
	Scope   string `json:"scope"` // what it is counted over: per-alb, per-account-region, …
	// Default is the published number, in units of Unit. It is nil where AWS publishes none that holds for all.
	Default *float64 `json:"default"`
	// Regions are the regions in which AWS publishes another number than Default.
	Regions map[string]float64 `json:"regions"`
	// Max is how far AWS raises the default; 0 when that is not published.
	Max        float64   `json:"max"`
	Unit       string    `json:"unit"`
	Adjustable bool      `json:"adjustable"`
	Code       string    `json:"quota_code"`   // in Service Quotas, L-…; "" when it is not listed there
	Quotas     string    `json:"service_code"` // the service's code in Service Quotas
	Types      []string  `json:"cfn_types"`    // resource types that count
	Count      string    `json:"count"`        // how, where the types alone do not say it
	Error      string    `json:"error"`        // what a deployment past it fails with, as far as known
	Notes      string    `json:"notes"`
	Certainty  Certainty `json:"certainty"`
	Source     string    `json:"source"`        // a document, and which copy of it
	Checked    string    `json:"code_verified"` // where else the quota code was seen
}

//go:embed limits.json
var data []byte

var load = sync.OnceValue(func() []Limit {
	var limits []Limit
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&limits); err != nil { // the file is part of the program, and a test reads it
		panic(fmt.Sprintf("limitdata: limits.json: %v", err))
	}
	slices.SortFunc(limits, func(a, b Limit) int { return strings.Compare(a.ID, b.ID) })
	return limits
})

// In is the published number for a region. It is Default where AWS publishes none for that region, and where the region is
// not known; and 0 for a limit without any.
func (l *Limit) In(region string) float64 {
	if n, ok := l.Regions[region]; ok {
		return n
	}
	if l.Default == nil {
		return 0
	}
	return *l.Default
}

// All are all limits, sorted by id.
func All() []Limit { return slices.Clone(load()) }

// Get is the limit of that id, and whether there is one.
func Get(id string) (Limit, bool) {
	limits := load()
	i, ok := slices.BinarySearchFunc(limits, id, func(l Limit, id string) int { return strings.Compare(l.ID, id) })
	if !ok {
		return Limit{}, false
	}
	return limits[i], true
}
