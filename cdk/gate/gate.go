// Package gate is the audit inside of cdk synth and cdk deploy: a policy-validation plugin of the AWS CDK.
//
// The CDK calls it once, when all templates of the app are written. A finding at or above the threshold fails the
// synthesis, and with that the deployment.
//
// # What the CDK makes of a report
//
// Some of its habits would let a hole through, were it not for one violation that the gate adds to every report that
// fails: rule "gate", severity fatal, of one resource without a construct (aws-cdk 2.1148, aws-cdk-lib 2.277).
//
//   - The command line keeps the violations of the selected stacks alone, and takes a report of which none is left for
//     a success. Plain cdk synth selects no stack of any Stage. What has no construct belongs to every selection.
//   - A plugin that throws is a report without violations, and with that a success. The gate recovers from its own
//     panics and reports them.
//   - Once anything of a report is acknowledged, its success is computed anew, from the severities of what is left.
//     Nothing fatal can be acknowledged.
//   - A violation of no resource at all is not printed; an app that no command line started even passes with it.
//
// The report lies in the cloud assembly, as validation-report.json, and cdk deploy --app cdk.out reads it there: what
// the gate refused is not deployed from the folder either.
package gate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

const (
	// Name is the plugin's. What acknowledges one of its rules begins with it: cellwall::SD001.
	Name = "cellwall"
	// Rule is the rule of the violation that fails a report. It cannot be acknowledged.
	Rule = "gate"
	// version is the plugin's for the CDK's reports, by semantic versioning: it changes with their form.
	version = "1.0.0"
)

// Options are what the gate goes by. The zero value audits with AWS's default limits and fails on errors.
type Options struct {
	Audit  audit.Options // Today's zero value means today
	FailOn audit.Level   // the lowest level that fails; Info, the zero value, means Error
	Stderr io.Writer     // takes the reasons of a failure; nil means os.Stderr
}

// Add puts the gate into an app, which must not have one yet.
func Add(app awscdk.App, o Options) {
	awscdk.Validations_Of(app).AddPlugins(newPlugin(*app.Outdir(), o))
}

func newPlugin(dir string, o Options) *plugin {
	if o.FailOn == audit.Info {
		o.FailOn = audit.Error
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Audit.Today.IsZero() {
		o.Audit.Today = time.Now()
	}
	return &plugin{dir: dir, opt: o, run: audit.Run}
}

// plugin implements awscdk.IPolicyValidationPlugin.
type plugin struct {
	dir string // of the cloud assembly
	opt Options
	run func(audit.Input, audit.Options) audit.Report
}

// Name is part of every acknowledgement of a rule.
func (*plugin) Name() *string { return str(Name) }

// Version is for the CDK's reports.
func (*plugin) Version() *string { return str(version) }

// RuleIds are all rules of the audit, and the one that fails a report.
func (*plugin) RuleIds() *[]*string {
	ids := []*string{str(Rule)}
	for _, r := range audit.Rules() {
		ids = append(ids, str(r.ID))
	}
	return &ids
}

// Validate audits the whole assembly. It never panics: what goes wrong in it is a failure of the report, because a
// gate that broke has judged nothing.
func (p *plugin) Validate(c awscdk.IPolicyValidationContext) (report *awscdk.PolicyValidationPluginReport) {
	defer func() {
		if broken := recover(); broken != nil {
			report = p.failed(fmt.Errorf("it broke, which is a fault of cellwall: %v", broken))
			p.opt.Stderr.Write(debug.Stack())
		}
	}()
	var templates []string
	for _, s := range *c.StackTemplates() {
		templates = append(templates, *s.TemplatePath)
	}
	if err := record(p.dir, acknowledgements(c.AppConstruct())); err != nil {
		return p.failed(err)
	}
	v, err := p.judge(templates)
	if err != nil {
		return p.failed(err)
	}
	if why := v.reasons(); why != "" {
		sum, _, _ := strings.Cut(why, ":")
		fmt.Fprintf(p.opt.Stderr, "error: %s\nhint: bin/cellwall audit %s shows every path; docs/audit.md says how to accept a finding\n", sum, p.dir)
	}
	return v.report()
}

// failed is the report of an audit that could not be done.
func (p *plugin) failed(err error) *awscdk.PolicyValidationPluginReport {
	what := fmt.Sprintf("the audit could not be done, so that nothing may be deployed: %v", err)
	fmt.Fprintf(p.opt.Stderr, "error: %s\n", what)
	return &awscdk.PolicyValidationPluginReport{
		Success: yes(false), PluginVersion: str(version),
		Violations: &[]*awscdk.PolicyViolation{refusal(what)},
	}
}

// judge reads the assembly once and audits it. templates are all that the CDK wrote.
func (p *plugin) judge(templates []string) (verdict, error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return verdict{}, err
	}
	defer root.Close()
	in, err := assembly.Load(root.FS())
	if err != nil {
		return verdict{}, fmt.Errorf("read %s: %w", p.dir, err)
	}
	if err := p.complete(in, templates); err != nil {
		return verdict{}, err
	}
	return newVerdict(p.dir, p.run(in, p.opt.Audit), p.opt.FailOn), nil
}

// complete checks that each template that the CDK wrote was read: an audit of a part of them must not pass.
func (p *plugin) complete(in audit.Input, templates []string) error {
	read := map[string]bool{}
	for _, s := range in.Stacks {
		read[absolute(filepath.Join(p.dir, filepath.FromSlash(s.File)))] = true
	}
	var faults []error
	for _, file := range templates {
		if !read[absolute(file)] {
			faults = append(faults, fmt.Errorf("the CDK wrote %s, which was not read", file))
		}
	}
	return errors.Join(faults...)
}

// absolute is a path as it is compared. Where there is no working folder, as it was written.
func absolute(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return filepath.Clean(file)
}
