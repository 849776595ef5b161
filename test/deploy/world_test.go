// Package deploy deploys the sample fleet for real: CDK's own command line against the AWS API emulator,
// then requests through the deployed router function to a deployed slice. docs/testing.md says what of
// this is real.
package deploy

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/test/awsemu"
	"cellwall.dev/cellwall/test/cdkcli"
)

const (
	canary = "eu-canary"
	// staying and leaving are cells of another account. The one that leaves is in another region, too, and beside a
	// replica of the directory.
	staying, leaving = "eu-1", "us-1"
	// home is where the directory is, and the canary, too.
	homeAccount, homeRegion = "111111111111", "eu-west-1"
)

// By default the cells of 16 shards have five and four, which saves half of the time.
var whole = flag.Bool("whole", false, "deploy the sample fleet with all of its shards, and a cell in the shapes that it does not have")

// world is what the tests of one deployment share.
type world struct {
	root     string // of the project
	app      string // the CDK app, built
	cli      string // the CDK's command line
	*release        // the newest that is deployed
	names    names.Fleet
	aws      *awsemu.Emulator
	environ  []string
	issuer   *issuer

	cells []string              // those that stand
	doors []string              // the regions whose front door stands
	left  map[string]fleet.Cell // those that were destroyed, as they were
	moved string                // a tenant that had left data in one

	releases int            // of the slices' code, that were deployed
	since    map[string]int // how many there had been before a shard, by stack; none where it is not named
}

// release is one state of the fleet: what is described, and what its functions run.
type release struct {
	dir   string // fleet.yaml, cdk.json, dist
	dist  string // what the functions and instances run
	fleet *fleet.Fleet
}

// newWorld builds everything that a deployment of a fleet needs and starts the emulator. The fleet is one's description,
// or that of the sample where there is none.
func newWorld(t *testing.T, yaml string) *world {
	t.Helper()
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: root, releases: 1, since: map[string]int{}, left: map[string]fleet.Cell{}}
	w.cli = cdkcli.Path(t, root)
	w.issuer = newIssuer(t)
	t.Setenv("SSL_CERT_FILE", w.issuer.certificate) // the functions believe it, too
	w.aws = awsemu.Start(t)
	for _, name := range slices.Sorted(maps.Keys(w.aws.TemplateOnly())) {
		t.Logf("template-only: %s: %s", name, w.aws.TemplateOnly()[name])
	}
	bin := cdkcli.Built(t, root)
	w.app = filepath.Join(bin, "cdk-app")
	if yaml == "" {
		yaml = w.sample(t)
	}
	w.release = w.describe(t, filepath.Join(bin, "dist"), yaml)
	w.names = w.fleet.Names()
	w.environ = cdkcli.Environ(t, w.aws, homeAccount, homeRegion)
	return w
}

// sample is the project's fleet.yaml, with front doors.
func (w *world) sample(t *testing.T) string {
	t.Helper()
	yaml, err := os.ReadFile(filepath.Join(w.root, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(yaml) + "frontDoor: {}\n"
	if *whole {
		return text
	}
	return edited(t, text, "eu-west-1, zones: [a, b, c], shards: 16", "eu-west-1, zones: [a, b, c], shards: 5",
		"us-east-1, zones: [a, b, c], shards: 16", "us-east-1, zones: [a, b, c], shards: 4")
}

// describe makes a release: a fleet with the test's own issuer, beside the functions of dist.
func (w *world) describe(t *testing.T, dist, yaml string) *release {
	t.Helper()
	r := &release{dir: t.TempDir(), dist: dist}
	const login = "https://login.example.com/"
	text := strings.Replace(yaml, "issuer: "+login+",", "issuer: "+w.issuer.URL+",", 1)
	if !strings.Contains(text, "issuer: "+w.issuer.URL+",") {
		t.Fatalf("the fleet's issuer is not %s: write it otherwise", login)
	}
	path := filepath.Join(r.dir, "fleet.yaml")
	settings, err := os.ReadFile(filepath.Join(w.root, "cdk.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "cdk.json"), settings, 0o666)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err == nil {
		err = os.Symlink(dist, filepath.Join(r.dir, "dist"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.fleet, err = fleet.Load(path); err != nil {
		t.Fatal(err)
	}
	return r
}

// cell is a cell of the fleet, by name.
func (w *world) cell(t *testing.T, name string) fleet.Cell {
	t.Helper()
	c, ok := w.fleet.Cell(name)
	if !ok {
		t.Fatalf("the fleet has no cell %s", name)
	}
	return c
}

// of are the names of a cell, in its generation.
func (w *world) of(cell string) names.Cell {
	c, ok := w.fleet.Cell(cell)
	if !ok {
		c = w.left[cell]
	}
	return w.fleet.NamesOf(c)
}

// in is the configuration of an SDK client that works where a cell is.
func (w *world) in(t *testing.T, cell string) aws.Config {
	t.Helper()
	c := w.cell(t, cell)
	return w.aws.Config(t, c.Account, c.Region)
}

// synth begins to synthesise a release beside what the test does next. What it returns waits for it and gives the
// assembly's folder.
func (w *world) synth(t *testing.T, r *release, args ...string) func(*testing.T) string {
	t.Helper()
	out, ended := t.TempDir(), make(chan struct{})
	args = append(cdkcli.SynthArgs(w.app, out), args...)
	var said string
	var failure error
	start := time.Now()
	go func() {
		defer close(ended)
		said, failure = cdkcli.Command(t, r.dir, w.environ, w.cli, args...)
	}()
	t.Cleanup(func() { <-ended }) // it ends with the test's context
	return func(t *testing.T) string {
		t.Helper()
		waiting := time.Now()
		<-ended
		if failure != nil {
			t.Fatalf("cdk %s: %v\n%s", strings.Join(args, " "), failure, said)
		}
		t.Logf("cdk synth was waited for for %.1f of at most %.1f s", time.Since(waiting).Seconds(), time.Since(start).Seconds())
		return out
	}
}

// deploy deploys stacks of an assembly and returns what the CDK wrote.
func (w *world) deploy(t *testing.T, assembly string, stacks ...string) string {
	t.Helper()
	return w.cdk(t, w.dir, append(cdkcli.DeployArgs(assembly), stacks...)...)
}

// bootstrap prepares every account's regions for the CDK, with credentials of that account and outside of any app's
// folder, as it must be.
func (w *world) bootstrap(t *testing.T) {
	t.Helper()
	regions := map[string][]string{}
	for at := range w.places() {
		regions[at.account] = append(regions[at.account], at.region)
	}
	for account, regions := range regions {
		args := []string{"bootstrap"}
		if qualifier := w.fleet.Deploy.Qualifier; qualifier != "" {
			args = append(args, "--qualifier", qualifier)
		}
		for _, region := range regions {
			args = append(args, "aws://"+account+"/"+region)
		}
		cdkcli.Run(t, t.TempDir(), append(w.environ, w.aws.Environ(t, account, regions[0])...), w.cli, args...)
	}
}

// cdk runs the CDK's command line, which must succeed.
func (w *world) cdk(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return cdkcli.Run(t, dir, w.environ, w.cli, args...)
}

// operate runs cellwall's own command line on the deployed directory, as an operator of the home account does.
func (w *world) operate(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--directory", "aws", "--role-name", "test", "--fleet", filepath.Join(w.dir, "fleet.yaml"), "--because", "the deployment's test")
	return cdkcli.Run(t, w.dir, w.environ, filepath.Join(filepath.Dir(w.app), "cellwall"), args...)
}

// cdkFails runs the CDK's command line, which must fail.
func (w *world) cdkFails(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := cdkcli.Command(t, dir, w.environ, w.cli, args...)
	if err == nil {
		t.Fatalf("cdk %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	return out
}

func TestMain(m *testing.M) { os.Exit(cdkcli.Main(m)) }
