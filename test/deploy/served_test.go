package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler/handlertest"
)

// otherCellsServe opens the cells of the other account, signs tenants up, and has them served.
func (w *world) otherCellsServe(t *testing.T) {
	r := w.residence(t)
	for _, cell := range []string{staying, leaving} {
		w.open(t, r, cell)
		w.remember(t, cell)
	}
	for n := range 8 {
		w.signUpCustomer(t, r, fmt.Sprintf("customer-%d", n))
	}
	for _, cell := range []string{staying, leaving} {
		tenants := w.tenantsOf(t, r, cell)
		if len(tenants) == 0 {
			t.Errorf("no tenant came to %s", cell)
		}
		for _, tenant := range tenants {
			w.isServed(t, r, cell, tenant)
		}
	}
}

// remember has a cell's keeper write its snapshot, of which routers take the issuer's keys. The emulator's CloudWatch
// fails two of the keeper's parts.
func (w *world) remember(t *testing.T, cell string) {
	t.Helper()
	if _, _, err := invoke(t.Context(), w.in(t, cell), w.of(cell).Keeper()+":"+names.Alias, []byte("{}")); err != nil {
		t.Fatal(err)
	}
}

// signUpCustomer adds a tenant to the cell that has the most headroom.
func (w *world) signUpCustomer(t *testing.T, r *directory.Residence, tenant string) {
	t.Helper()
	if _, err := r.SignUp(t.Context(), directory.SignUp{Tenant: tenant, Load: 1000}, change("sign up "+tenant)); err != nil {
		t.Fatal(err)
	}
}

// isServed has a tenant write through the front door of each region, and read what it wrote last from its cell's own
// router. Slices of its subset are called, and once for each request.
func (w *world) isServed(t *testing.T, r *directory.Residence, cell, tenant string) {
	t.Helper()
	claims := map[string]string{w.fleet.Auth.Claim: tenant}
	signed := w.issuer.bearer(t, w.issuer.key, w.fleet.Auth.Audience, claims)
	before := w.slicesOf(t, cell)
	for _, region := range w.doors {
		if a := w.knock(t, region, event(t, "PUT", "/orders/here", cell+" by "+region, signed, claims)); a.Status/100 != 2 {
			t.Fatalf("%s, %s: PUT is answered %d: %s", region, tenant, a.Status, a.Body)
		}
	}
	a, err := try(t.Context(), w.in(t, cell), w.of(cell).RouterAlias(), event(t, "GET", "/orders/here", "", handlertest.Bearer(text(t, claims)), claims))
	if last := w.doors[len(w.doors)-1]; err != nil || a.Status != http.StatusOK || a.text() != cell+" by "+last {
		t.Errorf("%s: GET is answered %d, %v: %s", tenant, a.Status, err, a.Body)
	}
	subset, calls := w.subset(t, r, tenant), 0
	for shard, n := range w.slicesOf(t, cell) {
		if n -= before[shard]; n > 0 && !slices.Contains(subset, shard) {
			t.Errorf("%s: shard %s was called, which is not in the subset %v", tenant, shard, subset)
		}
		calls += n
	}
	if want := len(w.doors) + 1; calls != want {
		t.Errorf("%s: slices of %s were called %d times for %d requests", tenant, cell, calls, want)
	}
}

// serve has the tenants of some cells send requests to their cells' routers, one after another in each cell, until
// what it returns is called: that expects every one to have been answered, with what was written before.
func (w *world) serve(t *testing.T, tenants map[string][]string) (end func(*testing.T)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var faults []string
	sent := map[string]int{}
	for cell, tenants := range tenants {
		if len(tenants) == 0 {
			t.Fatalf("nobody is in %s", cell)
		}
		config, router := w.in(t, cell), w.of(cell).RouterAlias()
		ask := func(method, path, body, tenant string) (answer, error) {
			claims := map[string]string{w.fleet.Auth.Claim: tenant}
			return try(ctx, config, router, event(t, method, path, body, handlertest.Bearer(text(t, claims)), claims))
		}
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				tenant, path, body := tenants[n%len(tenants)], fmt.Sprintf("/orders/served-%d", n), fmt.Sprint(n)
				a, err := ask("PUT", path, body, tenant)
				if err == nil && a.Status/100 == 2 {
					a, err = ask("GET", path, "", tenant)
				}
				mu.Lock()
				sent[tenant]++
				if (err != nil || a.Status/100 != 2 || a.text() != body) && !errors.Is(err, context.Canceled) {
					faults = append(faults, fmt.Sprintf("%s, %s of %s: %d %s, %v", path, tenant, cell, a.Status, a.text(), err))
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond): // leaves the processor to the deployment
				}
			}
		})
	}
	var once sync.Once
	return func(t *testing.T) {
		t.Helper()
		once.Do(func() {
			cancel()
			all.Wait()
			t.Logf("requests by tenant: %v", sent)
			if len(faults) > 0 {
				t.Errorf("%d requests failed, such as:\n%s", len(faults), strings.Join(faults[:min(5, len(faults))], "\n"))
			}
			for cell, tenants := range tenants {
				for _, tenant := range tenants {
					if sent[tenant] < 3 {
						t.Errorf("%s of %s sent %d requests, which shows little", tenant, cell, sent[tenant])
					}
				}
			}
		})
	}
}

func text(t *testing.T, claims map[string]string) string {
	data, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// tenantsOf are the tenants that the directory has in a cell.
func (w *world) tenantsOf(t *testing.T, r *directory.Residence, cell string) []string {
	t.Helper()
	entries, err := r.ListCell(t.Context(), cell, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var tenants []string
	for _, e := range entries {
		tenants = append(tenants, e.Tenant)
	}
	return tenants
}

// newest is the version of a cell's newest topology.
func (w *world) newest(t *testing.T, r *directory.Residence, cell string) (version uint64) {
	t.Helper()
	all, err := r.Topologies(t.Context(), cell, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, topology := range all {
		version = max(version, topology.Version)
	}
	return version
}

// move has a tenant change its cell. Its data stays where it is.
func (w *world) move(t *testing.T, r *directory.Residence, tenant, to string) {
	t.Helper()
	entry, err := r.Get(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	moving := entry.Clone()
	moving.State = directory.Moving
	if moving, err = r.Settle(t.Context(), entry, moving, change("move "+tenant)); err != nil {
		t.Fatal(err)
	}
	there := moving.Clone()
	there.State, there.Cell, there.Topology = directory.Active, to, w.newest(t, r, to)
	if _, err := r.Settle(t.Context(), moving, there, change("move "+tenant+", there")); err != nil {
		t.Fatal(err)
	}
}

// secret is a secret's value.
func (w *world) secret(t *testing.T, config aws.Config, name string) string {
	t.Helper()
	out, err := secretsmanager.NewFromConfig(config).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &name})
	if err != nil {
		t.Fatal(err)
	}
	return *out.SecretString
}
