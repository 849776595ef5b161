// Package routerenv reads a router function's configuration from the environment that the cell's core
// stack gives it.
package routerenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// Environment is a router function's configuration. How the cell places its tenants is no part of it: that
// is published beside the directory.
type Environment struct {
	Service         string // CELLWALL_SERVICE
	Cell            string // CELLWALL_CELL
	Generation      int    // CELLWALL_GENERATION: the cell's, 0 where it is not set
	Auth            Auth   // CELLWALL_AUTH: JSON, who verifies callers
	KeySecret       string // CELLWALL_KEY_SECRET: name of the secret with the placement keys
	Directory       string // CELLWALL_DIRECTORY: name or ARN of the directory's table that is read
	DirectoryRegion string // CELLWALL_DIRECTORY_REGION: where that lies
	HomeRegion      string // CELLWALL_DIRECTORY_HOME_REGION: where the directory is written
	// Home is the table there, by name or ARN, to ask when a replica will not do; empty where the table that is
	// read is that one, or where there is no way to it. CELLWALL_DIRECTORY_HOME.
	Home string
	// Snapshots is the bucket of the cell's snapshot, "" where there is none. CELLWALL_SNAPSHOT_BUCKET.
	Snapshots string
	Routes    []routing.Route // CELLWALL_ROUTES: JSON, [{"path":"/*","via":"lambda"}]
	Rules     Rules           // CELLWALL_RULES: JSON
	// Stream says that the function's URLs have the invoke mode RESPONSE_STREAM. CELLWALL_STREAM: "1", or not set.
	Stream bool
}

// Replica says whether the table that is read is a replica of the one in the home region.
func (e Environment) Replica() bool { return e.DirectoryRegion != e.HomeRegion }

// Parse reads the environment. It reports every variable that is missing or wrong, by name.
func Parse(getenv func(string) string) (Environment, error) {
	p := parser{getenv: getenv}
	e := Environment{
		Service:         p.text("CELLWALL_SERVICE"),
		Cell:            p.text("CELLWALL_CELL"),
		Generation:      p.generation(),
		KeySecret:       p.text("CELLWALL_KEY_SECRET"),
		Directory:       p.text("CELLWALL_DIRECTORY"),
		DirectoryRegion: p.text("CELLWALL_DIRECTORY_REGION"),
		HomeRegion:      p.text("CELLWALL_DIRECTORY_HOME_REGION"),
		Home:            getenv("CELLWALL_DIRECTORY_HOME"),
		Snapshots:       getenv("CELLWALL_SNAPSHOT_BUCKET"),
	}
	if e.Home != "" && !e.Replica() {
		p.fault("CELLWALL_DIRECTORY_HOME", "is %q: the table that is read is in the home region %s itself; leave it out", e.Home, e.HomeRegion)
	}
	switch value := getenv("CELLWALL_STREAM"); value {
	case "", "1":
		e.Stream = value != ""
	default:
		p.fault("CELLWALL_STREAM", "is %q: want 1, where the function's URLs have the invoke mode RESPONSE_STREAM, or nothing", value)
	}
	p.json("CELLWALL_ROUTES", &e.Routes, wantRoutes)
	p.checked("CELLWALL_AUTH", &e.Auth, wantAuth)
	p.checked("CELLWALL_RULES", &e.Rules, wantRules)
	if len(p.faults) > 0 {
		return Environment{}, errors.Join(p.faults...)
	}
	return e, nil
}

// What the variables in JSON look like.
const (
	wantRoutes = `a list such as [{"path":"/*","via":"lambda"}]`
	wantAuth   = `an object such as {"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`
	wantRules  = `an object such as {"attemptTimeout":"5s","reserved":100}`
)

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

// generation is the cell's, as the fleet has it.
func (p *parser) generation() int {
	value := p.getenv("CELLWALL_GENERATION")
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 999 {
		p.fault("CELLWALL_GENERATION", "is %q: want the generation of the cell, 1 to 999, or nothing", value)
	}
	return n
}

// checked reads JSON that says by itself whether it makes sense.
func (p *parser) checked(name string, into interface{ check() error }, want string) {
	if !p.json(name, into, want) {
		return
	}
	if err := into.check(); err != nil {
		p.fault(name, "is %q: %v: want %s", p.getenv(name), err, want)
	}
}

func (p *parser) json(name string, into any, want string) (ok bool) {
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
