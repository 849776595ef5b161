// Package stamp turns a fleet into CloudFormation stacks: one global stack with the tenant directory, one for each
// region's front door where the fleet has them, and per cell a CDK Stage with a core stack, one stack per shard, so
// that a failed update hurts one shard and no template comes near CloudFormation's 500 resources, and a stack with the
// alarms and the dashboard of the whole.
//
// # Rules that every file here keeps
//
//  1. Physical names come from internal/fleet/names, and whatever can be derived (ARNs, hosts) is, so
//     that no stack asks another for it.
//  2. What only AWS knows (ids of the network) travels from the core stack to the shards' as SSM
//     parameters, one a value, read as typed template parameters. There are no CDK references
//     between stacks, no exports and no dynamic references: CloudFormation does not notice when the
//     value behind one of those changes.
//  3. Construct ids come from cell, shard and zone names, never from counters, and everything is
//     built in the fleet's or in sorted order: two syntheses give the same bytes, and a new shard
//     changes no existing shard's logical ids.
//  4. Nothing is looked up: what synthesis needs stands in the fleet.
package stamp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/cdk/gate"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Context keys that the app reads, as in cdk synth -c KEY=VALUE.
const (
	contextFleet = "fleet" // the fleet's file; default fleet.yaml in the working folder
	contextCell  = "cell"  // synthesise this cell alone, to the same bytes as in the whole fleet
	contextArch  = "arch"  // architecture of the functions in dist: arm64 (default) or x86_64
	// contextNewReplicas are the regions, with commas between, in which this deployment creates a
	// replica of the directory: their policies are left for the next.
	contextNewReplicas = "newReplicas"
	contextAudit       = "audit" // off leaves the audit out, for an assembly that is only to be looked at; default on
)

// Options are the surroundings of one synthesis. The zero value is what the CDK CLI expects.
type Options struct {
	// Out is the folder that the cloud assembly is written to; empty means the one that the CDK CLI
	// asks for, else a temporary one.
	Out string
	// Context is set beside what the CDK CLI passes.
	Context map[string]any
}

// NewApp starts the CDK and returns an empty app.
func NewApp(o Options) awscdk.App {
	settings := map[string]any{
		// Creation stack traces name the temporary folder of the run: with them no two syntheses
		// give the same bytes.
		"aws:cdk:disable-creation-stack-traces": true,
		noResourceLimit:                         0,
	}
	for k, v := range o.Context {
		settings[k] = v
	}
	props := &awscdk.AppProps{Context: &settings, AnalyticsReporting: no, StackTraces: no}
	if o.Out != "" {
		props.Outdir = str(o.Out)
	}
	app := awscdk.NewApp(props)
	leaveLimits(app)
	return app
}

// Run reads the fleet that the app's context names, synthesises it, and has the gate audit all templates: a hole
// fails cdk synth and cdk deploy. The error lists every fault found, one a line; panics of the CDK (its failed
// assertions) come back as errors too.
func Run(o Options) (err error) {
	defer rescue(&err)
	app := NewApp(o)
	file := setting(app, contextFleet, "fleet.yaml")
	f, at, err := fleet.LoadPositions(file)
	if err != nil {
		return err
	}
	switch how := setting(app, contextAudit, "on"); how {
	case "on":
		o, err := gateOptions(f, setting(app, contextCell, ""))
		if err != nil {
			return err
		}
		gate.Add(app, o)
	case "off":
		if err := gate.Off(app); err != nil {
			return err
		}
	default:
		return fmt.Errorf("-c audit=%s: write on or off", how)
	}
	return Synthesise(app, Input{
		Fleet:       f,
		At:          at,
		Router:      filepath.Join("dist", "router"),
		Keeper:      filepath.Join("dist", "keeper"),
		FrontDoor:   filepath.Join("dist", "frontdoor"),
		Cell:        setting(app, contextCell, ""),
		Arch:        Arch(setting(app, contextArch, string(ARM64))),
		NewReplicas: regions(setting(app, contextNewReplicas, "")),
	})
}

// Synthesise stamps a fleet into an app and writes the cloud assembly.
func Synthesise(app awscdk.App, in Input) (err error) {
	defer rescue(&err)
	scratch, err := os.MkdirTemp("", "cellwall-cdk-")
	if err != nil {
		return fmt.Errorf("no room for the shards' archive: %w", err)
	}
	defer os.RemoveAll(scratch)
	if err := build(app, in, scratch); err != nil {
		return err
	}
	return finish(app, in)
}

// build puts the fleet's stacks into the app. Archives are written to the folder scratch, which must stay until the
// app is synthesised.
func build(app awscdk.App, in Input, scratch string) error {
	plans, err := in.plan(scratch)
	if err != nil {
		return err
	}
	if in.Cell == "" {
		global := newGlobal(app, in.Fleet, in.NewReplicas)
		newReplicaWatches(app, in.Fleet, global)
		if err := newFrontDoors(app, in, global); err != nil {
			return err
		}
	}
	for _, p := range plans {
		newCell(app, p)
	}
	return nil
}

// setting is a string of the app's context.
func setting(app awscdk.App, key, otherwise string) string {
	if v, ok := app.Node().TryGetContext(str(key)).(string); ok && v != "" {
		return v
	}
	return otherwise
}

// regions are the parts of a list with commas between; none of an empty text.
func regions(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// rescue turns a panic into an error. The CDK's Go binding reports every failed assertion of the
// library as a panic whose text ends in JavaScript's stack trace, which helps no reader.
func rescue(err *error) {
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprint(p)
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "at ") {
			kept = append(kept, t)
		}
	}
	*err = fmt.Errorf("the CDK refused the stacks: %s", strings.Join(kept, "; "))
}

// newStack is a stack with the habits of all of ours, and with what the fleet's accounts ask of every stack. The
// tags name what it belongs to; CloudFormation hands them, and the fleet's, on to every resource that takes tags.
func newStack(scope awscdk.Stage, f *fleet.Fleet, id, name, about string, env *awscdk.Environment, tags map[string]string) awscdk.Stack {
	values := map[string]*string{}
	for _, from := range []map[string]string{f.Deploy.Tags, tags} {
		for k, v := range from {
			values[k] = str(v)
		}
	}
	props := &awscdk.StackProps{
		StackName:   str(name),
		Description: str(about),
		Env:         env,
		Tags:        &values,
		Synthesizer: awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{
			Qualifier: str(f.Deploy.Qualifier),
			// The rule compares the account's bootstrap version at deployment by an SSM parameter that
			// is resolved anew on each update: a moving part that a pinned CLI checks anyway.
			GenerateBootstrapVersionRule: no,
		}),
	}
	if policy := f.Deploy.PermissionsBoundary; policy != "" {
		props.PermissionsBoundary = awscdk.PermissionsBoundary_FromName(str(policy)) // of every role in the stack, whoever makes it
	}
	return awscdk.NewStack(scope, str(id), props)
}

// newCell is a cell's Stage: the core stack first, then a stack per shard, and what watches them last.
func newCell(app awscdk.App, p *plan) {
	c := p.cell
	stage := awscdk.NewStage(app, str(c.Name), &awscdk.StageProps{
		Env: &awscdk.Environment{Account: str(c.Account), Region: str(c.Region)}})
	// Constructs that spread over zones ask the CLI for the account's zones even when they were told
	// which. The answer stands in the fleet.
	stage.Node().SetContext(str("availability-zones:account="+c.Account+":region="+c.Region), strs(p.cell.ZoneNames()...))

	core := newStack(stage, p.fleet, "core", p.names.Stack(), fmt.Sprintf("Core of cell %s of %s", c.Name, p.fleet.Service), nil,
		map[string]string{names.TagService: p.fleet.Service, names.TagCell: c.Name})
	buildCore(core, p)
	var shards []awscdk.Stack
	for _, s := range p.shards {
		st := newStack(stage, p.fleet, "shard-"+s.id, s.names.Stack(), fmt.Sprintf("Shard %s of cell %s of %s", s.id, c.Name, p.fleet.Service), nil,
			map[string]string{names.TagService: p.fleet.Service, names.TagCell: c.Name, names.TagShard: s.id})
		st.AddStackDependency(core, str("the network and the parameters that name it come first"))
		buildShard(st, p, s)
		shards = append(shards, st)
	}
	watch := newStack(stage, p.fleet, "watch", p.names.WatchStack(), fmt.Sprintf("Alarms and dashboard of cell %s of %s", c.Name, p.fleet.Service), nil,
		map[string]string{names.TagService: p.fleet.Service, names.TagCell: c.Name})
	for _, st := range append([]awscdk.Stack{core}, shards...) {
		watch.AddStackDependency(st, str("an alarm over others must not name one that is not there"))
	}
	buildWatch(watch, p)
}
