package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/test/cdkcli"
)

// sameAssemblyAgain deploys what is deployed: nothing happens.
func (w *world) sameAssemblyAgain(t *testing.T, assembly string) {
	before := w.look(t)
	out := w.deploy(t, assembly, "global", canary+"/*")
	stacks := 0
	for _, s := range before {
		if !strings.HasSuffix(s.name, "/CDKToolkit") {
			stacks++
		}
	}
	if got := strings.Count(out, "(no changes)"); got != stacks {
		t.Errorf("%d stacks report no changes, want %d:\n%s", got, stacks, out)
	}
	if got := w.happened(t, before); len(got) > 0 {
		t.Errorf("these resources had events: %v", got)
	}
}

// second is the release that adds a shard to the canary, has new code and more memory for every slice, and raises
// the number of shards that a tenant has.
func (w *world) second(t *testing.T) *release {
	t.Helper()
	dist := t.TempDir()
	for _, unchanged := range []string{"router", "keeper", "frontdoor", "worker-http"} {
		if err := os.Symlink(filepath.Join(w.dist, unchanged), filepath.Join(dist, unchanged)); err != nil {
			t.Fatal(err)
		}
	}
	// As scripts/build-dist.sh builds it, but for a mark by which the code is another.
	cdkcli.Run(t, w.root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux"), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid=second", "-tags", "lambda.norpc", "-o", filepath.Join(dist, "worker", "bootstrap"), "./lambda/worker")
	return w.describe(t, dist, edited(t, w.sample(t), "shards: 4, tenants: internal", "shards: 5, tenants: internal", "perTenant: 2", "perTenant: 3", "memory: 512", "memory: 640"))
}

// third is the second without a cell, and without the wave that would have had none left.
func (w *world) third(t *testing.T, second *release) *release {
	t.Helper()
	var kept []string
	for line := range strings.Lines(w.read(t, second)) {
		if !strings.Contains(line, "name: "+leaving+",") && !strings.Contains(line, "percent: 50") {
			kept = append(kept, line)
		}
	}
	return w.describe(t, second.dist, strings.Join(kept, ""))
}

// read is the text of a release's fleet.
func (w *world) read(t *testing.T, r *release) string {
	t.Helper()
	yaml, err := os.ReadFile(filepath.Join(r.dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(yaml)
}

// edited is a fleet with texts replaced, each of which must stand there once; they come in pairs of old and new.
func edited(t *testing.T, yaml string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(yaml, pairs[i]); n != 1 {
			t.Fatalf("the fleet has %q %d times, want it once: write this edit otherwise", pairs[i], n)
		}
		yaml = strings.Replace(yaml, pairs[i], pairs[i+1], 1)
	}
	return yaml
}

// fleetChanges deploys the second release to the canary, migrates that to a topology with the new shard and with more
// shards for each tenant, and goes on to the other cells, while the tenants of all of them are served.
func (w *world) fleetChanges(t *testing.T, second *release, old, assembly string) {
	said, before := w.foretold(t, second, old, assembly), w.look(t)
	was, k := w.cell(t, canary).Shards.IDs(), w.fleet.Placement.PerTenant
	r := w.residence(t)
	tenants := map[string][]string{}
	for _, cell := range w.cells {
		tenants[cell] = w.tenantsOf(t, r, cell)
	}
	had := map[string][]string{}
	for _, tenant := range tenants[canary] {
		had[tenant] = w.subset(t, r, tenant)
	}
	end := w.serve(t, tenants)
	defer end(t)

	w.release = second
	w.releases++
	w.deploy(t, assembly, canary+"/*")
	if w.fleet.Placement.PerTenant != k+1 {
		t.Fatalf("tenants have %d shards after %d", w.fleet.Placement.PerTenant, k)
	}
	w.operate(t, "topology", "publish", canary)
	calls := w.slices(t)
	w.operate(t, "topology", "migrate", canary)
	w.operate(t, "topology", "retire", canary, strconv.FormatUint(w.newest(t, r, canary)-1, 10))
	for _, cell := range w.cells {
		if cell != canary {
			w.deploy(t, assembly, cell+"/*")
		}
	}
	got := w.happened(t, before)
	asForetold(t, said, got)
	w.touchedByChange(t, got, was)

	// The router that runs learns of a migration at the latest when it reads a tenant's entry anew.
	for _, tenant := range tenants[canary] {
		subset := w.subset(t, r, tenant) // of k + 1 shards
		fresh := slices.DeleteFunc(slices.Clone(subset), func(shard string) bool { return slices.Contains(had[tenant], shard) })
		t.Logf("%s has the shards %v, and had %v", tenant, subset, had[tenant])
		if len(fresh) == 0 || len(subset) != len(had[tenant])+1 {
			t.Errorf("%s has %d new shards of %d", tenant, len(fresh), len(subset))
		}
		// Of members that are well the quicker of two is asked: one that is slower than both others may never be.
		now := w.slices(t)
		t.Logf("new ones called: %t", slices.ContainsFunc(fresh, func(shard string) bool { return now[shard] > calls[shard] }))
	}
}

// touchedByChange expects of the second release's deployment to have touched the functions of all shards, those that
// show the shards of the canary, and what is the new shard's. was are the canary's shards before.
func (w *world) touchedByChange(t *testing.T, happened fates, was []string) {
	t.Helper()
	got, want := happened.types(), map[string][]string{}
	for _, cell := range w.cells {
		c := w.cell(t, cell)
		for _, id := range c.Shards.IDs() {
			want[strings.Join([]string{c.Account, c.Region, w.of(cell).Shard(id).Stack()}, "/")] = []string{
				"AWS::Lambda::Alias", "AWS::Lambda::Function", "AWS::Lambda::Version"}
		}
	}
	// The dashboard and the alarm over all shards know the new one, and four had to be more even than five.
	want[strings.Join([]string{homeAccount, homeRegion, w.of(canary).WatchStack()}, "/")] = []string{
		"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Dashboard"}
	now := w.cell(t, canary).Shards.IDs()
	newcomer := w.of(canary).Shard(now[len(now)-1]).Stack()
	w.since[newcomer] = 1
	added := strings.Join([]string{homeAccount, homeRegion, newcomer}, "/")
	if len(now) != len(was)+1 || len(got[added]) < 10 {
		t.Errorf("shards %v were %v before; of the new one there are %v", now, was, got[added])
	}
	delete(got, added)
	delete(want, added)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the change touched (-want +got):\n%s", diff)
	}
}

// cellGoes takes a cell out of the fleet in the order of docs/deploying.md: its tenants, the front doors, its stacks,
// the directory's policy. Its data stays, and the other cells are not touched.
func (w *world) cellGoes(t *testing.T, third *release, assembly, smaller string) {
	said := w.foretold(t, third, assembly, smaller)
	gone, config := w.cell(t, leaving), w.in(t, leaving)
	key := w.secret(t, config, w.of(leaving).PlacementKey())
	r := w.residence(t)
	tenants := w.tenantsOf(t, r, leaving)
	w.operate(t, "cell", "close", leaving)
	for _, tenant := range tenants {
		w.move(t, r, tenant, staying)
	}
	end := w.serve(t, map[string][]string{canary: w.tenantsOf(t, r, canary), staying: w.tenantsOf(t, r, staying)})
	defer end(t)

	before := w.look(t)
	w.deploy(t, smaller, "frontdoor-*")
	w.cdk(t, w.dir, "destroy", "--app", assembly, "--force", "--exclusively", "--concurrency", "8", leaving+"/*")
	w.deploy(t, smaller, "global")
	got := w.happened(t, before)
	asForetold(t, said, got)
	w.release, w.left[leaving] = third, gone
	w.cells = slices.DeleteFunc(w.cells, func(cell string) bool { return cell == leaving })

	// Beside what went.
	want := []string{strings.Join([]string{homeAccount, homeRegion, w.names.Stack()}, "/")}
	for _, region := range w.doors {
		want = append(want, strings.Join([]string{homeAccount, region, w.names.FrontDoorStack()}, "/"))
	}
	slices.Sort(want)
	maps.DeleteFunc(got, func(stack string, _ map[string]fate) bool {
		return strings.HasPrefix(stack, gone.Account+"/"+gone.Region+"/")
	})
	if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, want) {
		t.Errorf("stacks %v were touched, want %v", got, want)
	}
	w.noNetwork(t, place{gone.Account, gone.Region})
	if w.secret(t, config, w.of(leaving).PlacementKey()) != key {
		t.Error("the placement key is another than it was")
	}
	w.moved = tenants[0]
	w.kept(t, w.moved, gone)
}

// unknownTypeFails deploys a type that the emulator does not know: the CDK must report a failure, and the
// stack must be rolled back with a reason.
func (w *world) unknownTypeFails(t *testing.T) {
	assembly := w.assembly(t, "unknown-type", `{"Resources":{
		"Queue":{"Type":"AWS::SQS::Queue"},
		"Quantum":{"Type":"AWS::Braket::QuantumTask","DependsOn":"Queue"}}}`)
	out := w.cdkFails(t, w.dir, append(cdkcli.DeployArgs(assembly), "unknown-type")...)
	if !strings.Contains(out, "no support for AWS::Braket::QuantumTask") {
		t.Errorf("the failure does not name the type:\n%s", out)
	}
	if got := w.stacks(t, homeAccount, homeRegion)["unknown-type"]; got != "ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %q", got)
	}
}

// missingParameterFails deploys a stack whose typed SSM parameter is not there, as a shard's is before its
// cell's core.
func (w *world) missingParameterFails(t *testing.T) {
	assembly := w.assembly(t, "missing-parameter", `{
		"Parameters":{"Vpc":{"Type":"AWS::SSM::Parameter::Value<AWS::EC2::VPC::Id>","Default":"/not/there"}},
		"Resources":{"Queue":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":{"Ref":"Vpc"}}}}}`)
	out := w.cdkFails(t, w.dir, append(cdkcli.DeployArgs(assembly), "missing-parameter")...)
	if !strings.Contains(out, "Unable to fetch parameters [/not/there]") {
		t.Errorf("the failure does not name the parameter:\n%s", out)
	}
}

// assembly writes a cloud assembly with one hand-written stack in the home account and region.
func (w *world) assembly(t *testing.T, stack, template string) string {
	t.Helper()
	dir := t.TempDir()
	manifest := `{"version":"36.0.0","artifacts":{"` + stack + `":{"type":"aws:cloudformation:stack",
		"environment":"aws://` + homeAccount + "/" + homeRegion + `","properties":{"templateFile":"template.json"}}}}`
	for name, content := range map[string]string{"manifest.json": manifest, "template.json": template} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
