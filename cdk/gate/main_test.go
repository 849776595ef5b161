package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/audit"
)

// asApp makes the test's executable an app of the CDK's command line: one whose audit panics.
const asApp = "CELLWALL_GATE_TEST_APP"

func TestMain(m *testing.M) {
	if os.Getenv(asApp) != "" {
		app := cell{shared: true}.app("")
		p := newPlugin(*app.Outdir(), Options{})
		p.run = func(audit.Input, audit.Options) audit.Report { panic("a rule broke") }
		awscdk.Validations_Of(app).AddPlugins(p)
		app.Synth(nil)
		jsii.Close()
		return
	}
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// cell is an app with a global stack and a cell of two shards.
type cell struct {
	shared bool              // both shards take their work from one queue of the core
	out    string            // the folder of the assembly, "" for one of the test's
	acks   map[string]string // construct path to the reason with which SD003 is acknowledged there
}

// app is built into a folder; into the one that the command line asks for when that is empty.
func (k cell) app(out string) awscdk.App {
	// The CDK's own rules are no matter of these tests and take most of the time.
	props := &awscdk.AppProps{AnalyticsReporting: yes(false), BuiltinCloudFormationValidation: yes(false)}
	if out != "" {
		props.Outdir = str(out)
	}
	app := awscdk.NewApp(props)
	env := &awscdk.Environment{Account: str("111111111111"), Region: str("eu-west-1")}
	resource(awscdk.NewStack(app, str("global"), &awscdk.StackProps{Env: env}), "Topic", "AWS::SNS::Topic", map[string]any{"TopicName": "news"})
	stage := awscdk.NewStage(app, str("eu-1"), &awscdk.StageProps{Env: env})
	core := awscdk.NewStack(stage, str("core"), nil)
	resource(core, "Queue", "AWS::SQS::Queue", map[string]any{"QueueName": "work"})
	for _, shard := range []string{"s01", "s02"} {
		st := awscdk.NewStack(stage, str("shard-"+shard), nil)
		queue := "work"
		if !k.shared {
			queue += "-" + shard
			resource(st, "Queue", "AWS::SQS::Queue", map[string]any{"QueueName": queue})
		}
		resource(st, "Mapping", "AWS::Lambda::EventSourceMapping", map[string]any{
			"FunctionName": "worker-" + shard, "EventSourceArn": "arn:aws:sqs:eu-west-1:111111111111:" + queue})
	}
	for path, reason := range k.acks {
		at := constructs.IConstruct(app)
		for part := range strings.SplitSeq(path, "/") {
			if part != "" {
				at = at.Node().FindChild(str(part))
			}
		}
		awscdk.Validations_Of(at).Acknowledge(&awscdk.Acknowledgment{Id: str("cellwall::SD003"), Reason: str(reason)})
	}
	return app
}

func resource(scope constructs.Construct, id, typ string, properties map[string]any) {
	awscdk.NewCfnResource(scope, str(id), &awscdk.CfnResourceProps{Type: str(typ), Properties: &properties})
}

// synthesise runs the app with a gate, without a command line. A CDK that no command line started fails by itself.
func (k cell) synthesise(t *testing.T, o Options) (r pluginReport, stderr string, refused bool) {
	t.Helper()
	out := cmp.Or(k.out, filepath.Join(t.TempDir(), "out"))
	var said bytes.Buffer
	o.Stderr = &said
	app := k.app(out)
	Add(app, o)
	refused = throws(t, func() { app.Synth(nil) })
	return readReport(t, out), said.String(), refused
}

// throws tells whether the CDK ends f with a failed validation.
func throws(t *testing.T, f func()) (failed bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			if failed = strings.Contains(fmt.Sprint(p), "Validation failed"); !failed {
				t.Fatalf("panic: %v", p)
			}
		}
	}()
	f()
	return false
}

// pluginReport is the gate's part of validation-report.json; empty where there is nothing to say.
type pluginReport struct {
	PluginName, Conclusion           string
	Violations, SuppressedViolations []violation
}

// why is the description of the violation that fails the report.
func (r pluginReport) why() string {
	for _, v := range r.Violations {
		if v.RuleName == Rule {
			return v.Description
		}
	}
	return ""
}

type violation struct {
	RuleName, Description, SuggestedFix, Severity, Reason string
	RuleMetadata                                          map[string]string
	ViolatingConstructs                                   []struct{ ConstructPath string }
}

func readReport(t *testing.T, assembly string) pluginReport {
	t.Helper()
	var file struct{ PluginReports []pluginReport }
	data, err := os.ReadFile(filepath.Join(assembly, "validation-report.json"))
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(file.PluginReports, func(r pluginReport) bool { return r.PluginName == Name }); i >= 0 {
		return file.PluginReports[i]
	}
	return pluginReport{}
}
