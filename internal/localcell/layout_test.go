package localcell

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/adapter/snapfile"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/snapshot"
)

func TestNewLayout(t *testing.T) {
	f, err := fleet.Load("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayout(f, 2, "/worker")
	if err != nil || !l.FrontDoor || !slices.Equal(l.Names(), []string{"eu-1", "us-1"}) || l.Shards() != 32 {
		t.Errorf("two cells: %v of %d shards, front door %t, %v", l.Names(), l.Shards(), l.FrontDoor, err)
	}
	for _, n := range []int{0, -1, 3} {
		if _, err := NewLayout(f, n, "/worker"); err == nil || !strings.Contains(err.Error(), "1 to") {
			t.Errorf("%d cells: %v", n, err)
		}
	}
}

// TestKeysStayWithTheirCells: whichever cells run together, each has its own key, and the one that was there
// first the file that a single cell has.
func TestKeysStayWithTheirCells(t *testing.T) {
	cell := func(name string) Plan { return Plan{Cell: name} }
	one := cell("eu-1").Alone().withKeys(Layout{})
	two := Layout{Cells: []Plan{cell("us-1"), cell("eu-1")}}.withKeys(one)
	want := map[string]string{"eu-1": "placement-key", "us-1": "placement-key.us-1"}
	if diff := cmp.Diff(want, two.KeyFiles); diff != "" {
		t.Errorf("two cells after one (-want +got):\n%s", diff)
	}
	again := cell("us-1").Alone().withKeys(two)
	if diff := cmp.Diff(want, again.KeyFiles); diff != "" {
		t.Errorf("one of them alone (-want +got):\n%s", diff)
	}
}

// TestAnOlderPlanIsRead: the plan of one cell, as versions before several cells wrote it.
func TestAnOlderPlanIsRead(t *testing.T) {
	d := Dir{t.TempDir()}
	plan := testPlan(t)
	if err := d.writeJSON(filePlan, plan); err != nil {
		t.Fatal(err)
	}
	l, err := d.readLayout()
	if err != nil || l.FrontDoor || len(l.Cells) != 1 || l.KeyFiles["eu-1"] != filePlacementKey {
		t.Fatalf("%+v, %v", l, err)
	}
	if diff := cmp.Diff(plan, l.Cells[0]); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	for _, text := range []string{"{", "{}", "[]", `{"cell":""}`} {
		if err := d.write(filePlan, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if l, err := d.readLayout(); err == nil {
			t.Errorf("%s is read as %+v", text, l)
		}
	}
}

// testLayout is two cells of two shards behind a front door.
func testLayout(t *testing.T) Layout {
	l := Layout{FrontDoor: true}
	for _, cell := range []string{"eu-1", "us-1"} {
		p := testPlan(t)
		p.Cell, p.Topology.Cell = cell, cell
		p.Topology.Shards = p.Topology.Shards[:2]
		l.Cells = append(l.Cells, p)
	}
	return l
}

// TestACellGrowsToTwo starts two cells where one was: what it has stays, and each tenant is served by its cell.
func TestACellGrowsToTwo(t *testing.T) {
	first := testPlan(t)
	first.Topology.Shards = first.Topology.Shards[:2]
	d := Dir{filepath.Join(t.TempDir(), "state")}
	one := upIn(t, d, first)
	one.wants(http.StatusNoContent, one.token("acme"), "PUT", "/orders/1", "hello")
	if err := d.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}

	l := testLayout(t)
	r, admitted, err := d.Up(t.Context(), l, append([]string{"hooli", "umbra"}, testTenants...), []string{l.Cells[0].Worker})
	if err != nil || admitted.Tenants != 2 {
		t.Fatalf("up: %+v, %v\n%s", admitted, err, d.tail("supervisor"))
	}
	t.Cleanup(func() {
		if err := d.Down(context.Background(), true); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); err == nil {
			t.Error("the purge of several cells left something")
		}
	})
	c := &cell{r, t, d}
	if got := c.wants(http.StatusOK, c.token("acme"), "GET", "/orders/1", ""); got != "hello" {
		t.Errorf("through the front door: %q", got)
	}
	homes := map[string][]string{}
	for _, tenant := range []string{"acme", "globex", "hooli", "umbra"} {
		e, err := d.Entry(t.Context(), r, tenant)
		if err != nil {
			t.Fatal(err)
		}
		homes[e.Cell] = append(homes[e.Cell], tenant)
		c.wants(http.StatusNoContent, c.token(tenant), "PUT", "/orders/2", tenant)
	}
	if want := map[string][]string{"eu-1": {"acme", "globex", "hooli"}, "us-1": {"umbra"}}; !cmp.Equal(homes, want) {
		t.Errorf("homes %v, want %v", homes, want)
	}

	// A cell answers for its own tenants only: 421 to the front door, and to anybody else that it knows nobody.
	var settings routerSettings
	if err := d.readJSON("us-1."+fileRouter, &settings); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		secret []string
		want   int
	}{
		{nil, http.StatusNotFound}, {[]string{settings.FrontSecret}, http.StatusMisdirectedRequest}, {[]string{"guess"}, http.StatusNotFound},
		{[]string{settings.FrontSecret, settings.FrontSecret}, http.StatusNotFound}, {[]string{settings.WorkerSecret}, http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.Cells[1].Router+"/orders/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token("acme"))
		req.Header[headerFrontDoor] = test.secret
		if got := statusOf(t, req); got != test.want {
			t.Errorf("%d secrets: status %d, want %d", len(test.secret), got, test.want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.Cells[0].Router+"/orders/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer not-a-token")
	req.Header.Set(headerFrontDoor, settings.FrontSecret)
	if got := statusOf(t, req); got != http.StatusUnauthorized {
		t.Errorf("a token that only a front door vouches for: status %d", got)
	}
	c.wants(http.StatusNotFound, c.token("stranger"), "GET", "/orders/1", "")
	c.wants(http.StatusUnauthorized, "", "GET", "/orders/1", "")
	frontDoorStartsFromItsSnapshot(t, c, homes)
}

// frontDoorStartsFromItsSnapshot: a front door that starts while directory and issuer are down serves everybody whom
// its keeper had found before.
func frontDoorStartsFromItsSnapshot(t *testing.T, c *cell, homes map[string][]string) {
	t.Helper()
	files := c.dir.frontSnapshot()
	keys, err := snapfile.OpenKeys(files.keys, files.cell)
	if err != nil {
		t.Fatal(err)
	}
	written := func() bool {
		sealed, _, err := snapfile.New(files.file).Get(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Open(t.Context(), keys, sealed, snapshot.Want{Cell: snapshot.Fleet})
		if err != nil {
			t.Fatal(err)
		}
		for home, tenants := range homes {
			for _, tenant := range tenants {
				if e, ok := s.Entries.Lookup(tenant); !ok || e.Cell != home {
					return false
				}
			}
		}
		return true
	}
	for deadline := time.Now().Add(4 * keepEvery); !written(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the front door's snapshot lacks tenants")
		}
	}
	c.fails(nameDirectory, Fault{How: HowKill})
	c.fails(nameIssuer, Fault{How: HowKill})
	was := c.statusOf(nameFrontDoor)
	if err := syscall.Kill(was.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(startLimit); ; time.Sleep(50 * time.Millisecond) {
		if now := c.statusOf(nameFrontDoor); now.Starts > was.Starts && now.State == string(childReady) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the front door does not come back: %+v", c.statusOf(nameFrontDoor))
		}
	}
	for _, tenants := range homes {
		for _, tenant := range tenants {
			if got := c.wants(http.StatusOK, c.token(tenant), "GET", "/orders/2", ""); got != tenant {
				t.Errorf("tenant %s is answered %q", tenant, got)
			}
		}
	}
	c.heals(nameDirectory)
	c.heals(nameIssuer)
}
