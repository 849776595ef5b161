// Package routerenv reads a router function's configuration from the environment that the cell's core
// stack gives it.
package routerenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/placement"
	"cellwall.dev/cellwall/internal/routing"
)

// Environment is a router function's configuration.
type Environment struct {
	Service         string            // CELLWALL_SERVICE
	Cell            string            // CELLWALL_CELL
	Claim           string            // CELLWALL_TENANT_CLAIM: the claim that names the tenant
	Scheme          placement.Scheme  // CELLWALL_SCHEME
	MaxShared       int               // CELLWALL_MAX_SHARED: the most shards that two tenants share; 0 without the variable
	PerTenant       map[string]int    // CELLWALL_PER_TENANT: JSON, shards per tenant by size class, "" the default
	Shards          []placement.Shard // CELLWALL_SHARDS: id:zone or id:zone:weight, separated by commas, in the fleet's order
	KeySecret       string            // CELLWALL_KEY_SECRET: name of the secret with the placement keys
	KeyVersion      string            // CELLWALL_KEY_VERSION: which of them
	Directory       string            // CELLWALL_DIRECTORY: name or ARN of the directory's table
	DirectoryRegion string            // CELLWALL_DIRECTORY_REGION
	Routes          []routing.Route   // CELLWALL_ROUTES: JSON, [{"path":"/*","via":"lambda"}]
}

// Parse reads the environment. It reports every variable that is missing or wrong, by name.
func Parse(getenv func(string) string) (Environment, error) {
	p := parser{getenv: getenv}
	e := Environment{
		Service:         p.text("CELLWALL_SERVICE"),
		Cell:            p.text("CELLWALL_CELL"),
		Claim:           p.text("CELLWALL_TENANT_CLAIM"),
		Scheme:          p.scheme("CELLWALL_SCHEME"),
		MaxShared:       p.optional("CELLWALL_MAX_SHARED"),
		Shards:          p.shards("CELLWALL_SHARDS"),
		KeySecret:       p.text("CELLWALL_KEY_SECRET"),
		KeyVersion:      p.version("CELLWALL_KEY_VERSION"),
		Directory:       p.text("CELLWALL_DIRECTORY"),
		DirectoryRegion: p.text("CELLWALL_DIRECTORY_REGION"),
	}
	if p.json("CELLWALL_PER_TENANT", &e.PerTenant, `an object such as {"":2,"whale":4}`) {
		p.perTenant("CELLWALL_PER_TENANT", e.PerTenant, len(e.Shards))
	}
	p.json("CELLWALL_ROUTES", &e.Routes, `a list such as [{"path":"/*","via":"lambda"}]`)
	if len(p.faults) > 0 {
		return Environment{}, errors.Join(p.faults...)
	}
	return e, nil
}

type parser struct {
	getenv func(string) string
	faults []error
}

func (p *parser) fault(name, format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf("%s %s", name, fmt.Sprintf(format, args...)))
}

func (p *parser) text(name string) string {
	value := p.getenv(name)
	if value == "" {
		p.fault(name, "is not set")
	}
	return value
}

func (p *parser) scheme(name string) placement.Scheme {
	text := p.text(name)
	if text == "" {
		return ""
	}
	scheme, err := placement.ParseScheme(text)
	if err != nil {
		p.fault(name, "is %q: %v", text, err)
	}
	return scheme
}

func (p *parser) version(name string) string {
	text := p.text(name)
	if n, err := strconv.ParseUint(text, 10, 32); text != "" && (err != nil || n == 0) {
		p.fault(name, "is %q: want a whole number from 1", text)
	}
	return text
}

// shards reads id, id:zone or id:zone:weight; a shard without a weight has weight 1.
func (p *parser) shards(name string) []placement.Shard {
	text := p.text(name)
	if text == "" {
		return nil
	}
	var shards []placement.Shard
	seen := map[string]bool{}
	for _, one := range strings.Split(text, ",") {
		parts := strings.Split(one, ":")
		s := placement.Shard{ID: parts[0], Weight: 1}
		if len(parts) > 1 {
			s.Zone = parts[1]
		}
		var err error
		if len(parts) > 2 {
			s.Weight, err = strconv.Atoi(parts[2])
		}
		if s.ID == "" || strings.TrimSpace(one) != one || len(parts) > 3 || err != nil || s.Weight < 1 {
			p.fault(name, "is %q: want shards as id, id:zone or id:zone:weight, separated by commas alone", text)
			return nil
		}
		if seen[s.ID] {
			p.fault(name, "names shard %q twice", s.ID)
			return nil
		}
		seen[s.ID] = true
		shards = append(shards, s)
	}
	return shards
}

// optional is a whole number from 0, 0 when the variable is not set.
func (p *parser) optional(name string) int {
	text := p.getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		p.fault(name, "is %q: want a whole number from 0", text)
	}
	return int(n)
}

func (p *parser) json(name string, into any, want string) bool {
	text := p.text(name)
	if text == "" {
		return false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		p.fault(name, "is %q: %v: want %s", text, err, want)
		return false
	}
	if dec.More() {
		p.fault(name, "is %q: something follows: want %s", text, want)
		return false
	}
	return true
}

// perTenant checks the numbers against that of the shards, where that is known.
func (p *parser) perTenant(name string, perTenant map[string]int, shards int) {
	if shards == 0 {
		return
	}
	if _, ok := perTenant[""]; !ok {
		p.fault(name, `lacks the default class ""`)
	}
	for class, k := range perTenant {
		if k < 1 || k > shards {
			p.fault(name, "gives class %q %d shards: want 1 to %d", class, k, shards)
		}
	}
}
