package deploy

import (
	"net/http"
	"slices"
	"testing"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// frontDoor deploys the front doors, and what watches the directory's replicas, and sends requests through each of the
// doors to the canary.
func (w *world) frontDoor(t *testing.T, assembly string) {
	w.deploy(t, assembly, "frontdoor-*", "watch-*")
	w.doors = w.fleet.FrontDoors()
	for _, region := range w.doors {
		w.function(t, w.aws.Config(t, homeAccount, region), w.names.FrontDoor(), w.fleet.FrontDoor.ReservedConcurrency, w.fleet.FrontDoor.Memory, "1")
	}
	audience := w.fleet.Auth.Audience
	as := func(tenant string) map[string]string { return map[string]string{w.fleet.Auth.Claim: tenant} }
	signed := func(tenant string) string { return w.issuer.bearer(t, w.issuer.key, audience, as(tenant)) }

	before := w.slices(t)
	for _, region := range w.doors {
		path := "/orders/door-" + region
		if a := w.knock(t, region, event(t, "PUT", path, "by the front in "+region, signed("acme"), as("acme"))); a.Status/100 != 2 {
			t.Fatalf("%s: PUT is answered %d: %s", region, a.Status, a.Body)
		}
		// The cell serves the same document to who asks it directly.
		if a := w.request(t, "GET", path, "", as("acme")); a.Status != http.StatusOK || a.text() != "by the front in "+region {
			t.Errorf("%s: GET is answered %d: %s", region, a.Status, a.Body)
		}
	}
	subset := w.subset(t, w.residence(t), "acme")
	for shard, n := range w.slices(t) {
		// The cell's router may remember where the tenant was before it was migrated, until that shard has refused it once.
		if n > before[shard]+1 && !slices.Contains(subset, shard) {
			t.Errorf("shard %s was called %d times, which is not in the subset %v", shard, n-before[shard], subset)
		}
	}

	// The claims are what an authorizer in front would say; the cell believes the token alone.
	before = w.slices(t)
	for name, c := range map[string]struct {
		token  string
		claims map[string]string
		status int
	}{
		"a token that the issuer did not sign": {w.issuer.bearer(t, newKey(t), audience, as("acme")), as("acme"), http.StatusUnauthorized},
		"a token for others":                   {w.issuer.bearer(t, w.issuer.key, "others", as("acme")), as("acme"), http.StatusUnauthorized},
		"a token of another tenant":            {signed("newcomer"), as("acme"), http.StatusUnauthorized},
		"no token":                             {"", nil, http.StatusUnauthorized},
		"an unknown tenant":                    {signed("stranger"), as("stranger"), http.StatusNotFound},
	} {
		for _, region := range w.doors {
			if a := w.knock(t, region, event(t, "GET", "/orders/door-"+region, "", c.token, c.claims)); a.Status != c.status {
				t.Errorf("%s, %s: answered %d, want %d: %s", region, name, a.Status, c.status, a.Body)
			}
		}
	}
	for shard, n := range w.slices(t) {
		if n != before[shard] {
			t.Errorf("shard %s was called", shard)
		}
	}
}

// knock sends an event to the front door of a region.
func (w *world) knock(t *testing.T, region string, event []byte) answer {
	t.Helper()
	a, err := try(t.Context(), w.aws.Config(t, homeAccount, region), w.names.FrontDoor()+":"+names.Alias, event)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
