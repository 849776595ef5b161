package local

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// TestTheDirectoryIsWhatTheRouterGoesBy changes a tenant by the commands and sees what its requests meet.
func TestTheDirectoryIsWhatTheRouterGoesBy(t *testing.T) {
	c := newCell(t)
	c.up("--cell", "eu-1")
	r := c.running()
	token := "Bearer " + strings.TrimSpace(c.must("token", "newcomer"))
	meets := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			resp := ask(t, "PUT", r.Router+"/orders/1", token, "hello")
			if resp.StatusCode == want {
				return
			}
			if time.Now().After(deadline) { // a router believes what it was told for a while
				t.Fatalf("status %d, want %d", resp.StatusCode, want)
			}
		}
	}
	meets(http.StatusNotFound)
	c.operate("cell", "open", "eu-1", "--capacity", "1000")
	c.operate("tenant", "add", "newcomer", "--load", "5")
	meets(http.StatusNoContent)
	c.operate("tenant", "suspend", "newcomer")
	meets(http.StatusForbidden)
	c.operate("tenant", "resume", "newcomer")
	meets(http.StatusNoContent)

	// Its requests go where the subset says, and where it is pinned.
	subset := c.tenant("newcomer")
	if len(subset) != 2 {
		t.Fatalf("subset %v", subset)
	}
	asked := func() map[string]int64 {
		t.Helper()
		counters, err := c.running().Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]int64{}
		for shard, n := range counters.Shards {
			all[shard] = n.Attempts
		}
		return all
	}
	var elsewhere string
	for _, p := range c.running().Processes {
		if strings.HasPrefix(p.Name, "s0") && p.Name != subset[0] && p.Name != subset[1] {
			elsewhere = p.Name
		}
	}
	c.operate("tenant", "pin", "newcomer", elsewhere, "--because", "test")
	meets(http.StatusNoContent) // the router learns it from the shard that let go
	before := asked()
	const requests = 20
	for range requests {
		meets(http.StatusNoContent)
	}
	for shard, n := range asked() {
		want := before[shard]
		if shard == elsewhere {
			want += requests
		}
		if n != want {
			t.Errorf("shard %s was asked %d times, want %d", shard, n-before[shard], want-before[shard])
		}
	}
	if got := c.tenant("newcomer"); len(got) != 1 || got[0] != elsewhere {
		t.Errorf("pinned to %v, want %s", got, elsewhere)
	}
	if held := c.operate("shard", "tenants", "eu-1/"+elsewhere); !strings.Contains(held, "newcomer\t") {
		t.Errorf("shard %s holds\n%s", elsewhere, held)
	}
	if held := c.operate("shard", "tenants", "eu-1/"+subset[0]); strings.Contains(held, "newcomer") {
		t.Errorf("shard %s still holds\n%s", subset[0], held)
	}

	// The fleet's cell is what up has published.
	cmd := c.command()
	cmd.Args = []string{cmd.Path, "topology", "publish", "eu-1", "--state-dir", c.state}
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "nothing is published") {
		t.Errorf("publish what is published: %v\n%s", err, out)
	}

	// A second up finds what the first has left, whoever changed it.
	c.must("down")
	c.must("up", "--cell", "eu-1")
	r = c.running()
	token = "Bearer " + strings.TrimSpace(c.must("token", "newcomer"))
	meets(http.StatusNoContent)
	if got := c.tenant("newcomer"); len(got) != 1 || got[0] != elsewhere {
		t.Errorf("after another up pinned to %v, want %s", got, elsewhere)
	}
}

// tenant is the tenant's subset, every member of which must hold it, and nobody else.
func (c *cell) tenant(id string) []string {
	c.t.Helper()
	var shown struct {
		Entry  directory.Entry
		Subset []struct {
			Shard, Zone string
			Holds       bool
		}
		Held []struct{ Shard string }
	}
	if err := json.Unmarshal([]byte(c.operate("tenant", "show", id, "--json")), &shown); err != nil {
		c.t.Fatal(err)
	}
	var subset []string
	for _, m := range shown.Subset {
		if !m.Holds || m.Zone == "" {
			c.t.Errorf("shard %s of zone %q holds %s: %t", m.Shard, m.Zone, id, m.Holds)
		}
		subset = append(subset, m.Shard)
	}
	if len(shown.Held) != len(subset) {
		c.t.Errorf("%s is served by %v and held by %v", id, subset, shown.Held)
	}
	return subset
}
