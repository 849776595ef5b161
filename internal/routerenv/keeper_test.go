package routerenv

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var keeperVariables = map[string]string{
	"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_KEY_SECRET": "cellwall/orders/eu-1/placement-key",
	"CELLWALL_DIRECTORY": "orders-directory", "CELLWALL_DIRECTORY_REGION": "eu-west-1", "CELLWALL_SNAPSHOT_BUCKET": "orders-eu-1-0snap",
}

func TestParseKeeper(t *testing.T) {
	least, err := ParseKeeper(getenv(keeperVariables))
	if err != nil {
		t.Fatal(err)
	}
	want := Keeper{Service: "orders", Cell: "eu-1", KeySecret: "cellwall/orders/eu-1/placement-key", Directory: "orders-directory", DirectoryRegion: "eu-west-1",
		Snapshots: "orders-eu-1-0snap", Home: "orders-directory", HomeRegion: "eu-west-1", Quarantine: []string{}, Balancers: []string{}}
	if diff := cmp.Diff(want, least); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := maps.Clone(keeperVariables)
	maps.Copy(all, map[string]string{"CELLWALL_GENERATION": "999", "CELLWALL_ISSUER": "https://login.example.com/", "CELLWALL_SLICES": "1", "CELLWALL_QUEUES": "1", "CELLWALL_PORT": "8080", "CELLWALL_BALANCERS": "g01 g02",
		"CELLWALL_DIRECTORY_HOME": "home-directory", "CELLWALL_DIRECTORY_HOME_REGION": "us-east-1", "CELLWALL_QUARANTINE": "s15 s16", "CELLWALL_HOLDINGS": "table", "CELLWALL_STATEFUL": "1", "CELLWALL_HASH_TENANTS": "1"})
	got, err := ParseKeeper(getenv(all))
	if err != nil {
		t.Fatal(err)
	}
	want.Generation = 999
	want.Issuer, want.Slices, want.Queues, want.Port, want.Balancers = "https://login.example.com/", true, true, 8080, []string{"g01", "g02"}
	want.Home, want.HomeRegion, want.Quarantine, want.Holdings, want.Stateful, want.HashTenants = "home-directory", "us-east-1", []string{"s15", "s16"}, HoldingsTable, true, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range keeperVariables {
		one := maps.Clone(keeperVariables)
		one[name] = ""
		if _, err := ParseKeeper(getenv(one)); err == nil || err.Error() != name+" is not set" {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for _, c := range []struct{ name, value, says string }{
		{"CELLWALL_SLICES", "yes", "want 1"},
		{"CELLWALL_QUEUES", "0", "want 1"},
		{"CELLWALL_STATEFUL", "home", "want 1"},
		{"CELLWALL_HASH_TENANTS", "yes", "want 1"},
		{"CELLWALL_HOLDINGS", "tables", "want table, store or nothing"},
		{"CELLWALL_DIRECTORY_HOME", "orders-directory", "set both, or neither"},
		{"CELLWALL_DIRECTORY_HOME_REGION", "eu-west-1", "set both, or neither"},
		{"CELLWALL_GENERATION", "0", "1 to 999, or nothing"},
		{"CELLWALL_GENERATION", "1000", "1 to 999, or nothing"},
		{"CELLWALL_GENERATION", "two", "1 to 999, or nothing"},
		{"CELLWALL_PORT", "http", "1 to 65535"},
		{"CELLWALL_PORT", "0", "1 to 65535"},
		{"CELLWALL_PORT", "8080", "CELLWALL_BALANCERS"},
		{"CELLWALL_BALANCERS", "own", "CELLWALL_PORT"},
	} {
		one := maps.Clone(keeperVariables)
		one[c.name] = c.value
		if _, err := ParseKeeper(getenv(one)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
}
