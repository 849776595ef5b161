package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recipe122 are flags with which Recipe 12.2 has published counts.
var recipe122 = []string{"blast", "--scheme", "hmac/v1", "--shards", "16", "--per-tenant", "3", "--key-hex", "73687566666c652d73686172642d7631"}

func recipeTenants(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "tenant-%05d\n", i)
	}
	return b.String()
}

func TestBlast(t *testing.T) {
	// Two vectors of Recipe 12.2: the failure of three shards for 2,000 tenants, and the pairs of 600.
	// Those of 2,000 were counted by the recipe's own code.
	status, out, errw := command("", slices.Concat(recipe122, []string{"--json", "--tenants-file", tenantsFile(t, recipeTenants(2000)), "--failed", "1,6,13"})...)
	if want := `{"tenants":2000,"fully_down":3,"degraded":941,"overlapping_pairs":979410,"pairs":1999000}` + "\n"; status != ExitDone || out != want {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	status, out, errw = command(recipeTenants(600), slices.Concat(recipe122, []string{"--json", "--tenants-file", "-", "--failed", "0"})...)
	if want := `"overlapping_pairs":88109,"pairs":179700}` + "\n"; status != ExitDone || !strings.HasSuffix(out, want) {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	status, out, errw = command(recipeTenants(2000), slices.Concat(recipe122, []string{"--tenants-file", "-", "--failed", "1, 6,13"})...)
	for _, want := range []string{"tenants", "2000", "shards 1, 6, 13 of 0 to 15", "0.15 %", "47.05 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing, status %d:\n%s%s", want, status, out, errw)
		}
	}
}

// A single tenant has no pairs, and its percentage is none of nothing.
func TestBlastOneTenant(t *testing.T) {
	status, out, errw := command("acme\n", slices.Concat(recipe122, []string{"--tenants-file", "-", "--failed", "0"})...)
	if status != ExitDone || !strings.Contains(out, "0 of 0  ") || strings.Contains(out, "NaN") {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
}

func TestBlastRefuses(t *testing.T) {
	good, negative := tenantsFile(t, "acme\nbeta\n"), tenantsFile(t, "tenant,load\nacme,-3\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--failed", "0"}, "error: --tenants-file must be given"},
		{[]string{"--tenants-file", good}, "error: --failed must be given"},
		{[]string{"--tenants-file", good, "--failed", ""}, `error: --failed: "" is no index of a shard: write indices from 0, separated by commas, as 3,7`},
		{[]string{"--tenants-file", good, "--failed", "3,"}, `error: --failed: "" is no index`},
		{[]string{"--tenants-file", good, "--failed", "s03"}, `error: --failed: "s03" is no index`},
		{[]string{"--tenants-file", good, "--failed", "01"}, `error: --failed: "01" is no index`},
		{[]string{"--tenants-file", good, "--failed", "0x1"}, `error: --failed: "0x1" is no index`},
		{[]string{"--tenants-file", good, "--failed", "-1"}, `error: --failed: "-1" is no index`},
		{[]string{"--tenants-file", good, "--failed", "4294967299"}, `error: --failed: "4294967299" is no index`},
		{[]string{"--tenants-file", good, "--failed", "16"}, "error: --failed: not a set of shards that can fail: shard 16 does not exist, shards are 0 to 15"},
		{[]string{"--tenants-file", good, "--failed", "3,7,3"}, "error: --failed: not a set of shards that can fail: shard 3 is named twice"},
		{[]string{"--tenants-file", good, "--failed", "3", "acme"}, "error: accepts 0 arg(s), received 1"},
		{[]string{"--tenants-file", negative, "--failed", "3"}, "error: " + negative + `:2: the load "-3" is negative`},
		{[]string{"--tenants-file", good + "-not", "--failed", "3"}, "error: cannot read the tenants"},
		{[]string{"--tenants-file", good, "--failed", "3", "--shards", "2"}, "error: --per-tenant: shards per tenant out of range: 3 of 2"},
	} {
		status, out, errw := command("", slices.Concat(recipe122, c.args)...)
		if at := strings.Index(errw, "error: "); status != ExitUsage || out != "" || at < 0 || !strings.HasPrefix(errw[at:], c.want) {
			t.Errorf("%q: status %d, output %q, error %q; want status 2 and %q", c.args, status, out, errw, c.want)
		}
	}
}

// Pairs that are too much work are left out for people, and refused where a program wants all five counts.
func TestBlastTooCostly(t *testing.T) {
	const tenants = 15_000
	args := []string{"blast", "--scheme", "rendezvous/v1", "--shards", "1000", "--per-tenant", "60", "--key-hex", "6b", "--failed", "3", "--tenants-file", "-"}
	status, out, errw := command(recipeTenants(tenants), args...)
	for _, want := range []string{"tenants     15000", "fully down  0", "degraded    ", "not counted: pairwise overlap is too much work"} {
		if status != ExitDone || !strings.Contains(out, want) {
			t.Errorf("%q is missing, status %d:\n%s%s", want, status, out, errw)
		}
	}
	status, out, errw = command(recipeTenants(tenants), append(args, "--json")...)
	if status != ExitUsage || out != "" || !strings.Contains(errw, "error: pairwise overlap is too much work") || !strings.Contains(errw, "hint: without --json") {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
}
