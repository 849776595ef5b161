package deploy

import (
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/fleet"
)

// fourth is the third with the cell that went, in its next generation.
func (w *world) fourth(t *testing.T, second, third *release) *release {
	t.Helper()
	var line string
	for l := range strings.Lines(w.read(t, second)) {
		if strings.Contains(l, "name: "+leaving+",") {
			line = strings.Replace(l, "}", ", generation: 1}", 1)
		}
	}
	return w.describe(t, third.dist, edited(t, w.read(t, third), "\nrollout:", "\n"+line+"rollout:"))
}

// cellAgain stamps the cell that went once more, as docs/operating.md says: in its next generation, beside the data that
// it left. A tenant that had been moved out of it comes back, another is new, and both are served.
func (w *world) cellAgain(t *testing.T, fourth *release, old, assembly string) {
	gone := w.left[leaving]
	key := w.secret(t, w.aws.Config(t, gone.Account, gone.Region), w.fleet.NamesOf(gone).PlacementKey())
	said, before := w.foretold(t, fourth, old, assembly), w.look(t)
	w.release = fourth
	w.deploy(t, assembly, "global")
	w.deployCell(t, assembly, leaving)
	w.deploy(t, assembly, "frontdoor-*")
	asForetold(t, said, w.happened(t, before))
	for _, id := range w.cell(t, leaving).Shards.IDs() {
		w.since[w.of(leaving).Shard(id).Stack()] = w.releases - 1 // its functions are new
	}

	r := w.residence(t)
	version := w.newest(t, r, leaving)
	w.operate(t, "topology", "publish", leaving)
	w.operate(t, "topology", "retire", leaving, strconv.FormatUint(version, 10))
	w.operate(t, "cell", "open", leaving, "--capacity", "1000000")
	w.remember(t, leaving)
	next, err := r.Topology(t.Context(), leaving, w.newest(t, r, leaving))
	if err != nil || next.Version != version+1 || next.KeyVersion != w.of(leaving).KeyVersion(1) {
		t.Errorf("topology %d is by key %s, %v", next.Version, next.KeyVersion, err)
	}
	returns := w.tenantsOf(t, r, staying)[0]
	w.move(t, r, returns, leaving)
	w.signUpCustomer(t, r, "newest")
	tenants := w.tenantsOf(t, r, leaving)
	if len(tenants) != 2 {
		t.Errorf("in the cell there are %v, want the newest and %s", tenants, returns)
	}
	for _, tenant := range tenants {
		w.isServed(t, r, leaving, tenant)
	}

	config := w.in(t, leaving)
	if was := w.secret(t, config, w.fleet.NamesOf(gone).PlacementKey()); was != key || was == w.secret(t, config, w.of(leaving).PlacementKey()) {
		t.Error("the key of the generation that went is not what it was, or is that of the next")
	}
	w.kept(t, w.moved, gone)
}

// kept expects in the store of a cell that went what a tenant wrote last before it moved.
func (w *world) kept(t *testing.T, tenant string, gone fleet.Cell) {
	t.Helper()
	config := w.aws.Config(t, gone.Account, gone.Region)
	store, err := itemdynamo.New(dynamodb.NewFromConfig(config), itemdynamo.Tables{State: w.fleet.NamesOf(gone).Store(), Shard: "any"})
	if err != nil {
		t.Fatal(err)
	}
	if body, found, err := store.Get(t.Context(), tenant, "ORDER#here"); err != nil || !found || !strings.HasPrefix(string(body), gone.Name+" by ") {
		t.Errorf("of the data that it kept there is %q, %v, %v", body, found, err)
	}
}
