package routerenv

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/identity"
)

var doorVariables = map[string]string{
	"CELLWALL_SERVICE": "orders", "CELLWALL_ROLE": "arn:aws:iam::111111111111:role/door",
	"CELLWALL_AUTH":      `{"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`,
	"CELLWALL_DIRECTORY": "orders-directory", "CELLWALL_DIRECTORY_REGION": "eu-west-1", "CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
	"CELLWALL_CELLS": `{"eu-1":"eu-west-1/222222222222"}`,
}

func TestParseFrontDoor(t *testing.T) {
	got, err := ParseFrontDoor(getenv(doorVariables))
	if err != nil {
		t.Fatal(err)
	}
	want := FrontDoor{
		Service: "orders", Role: "arn:aws:iam::111111111111:role/door", Directory: "orders-directory", DirectoryRegion: "eu-west-1", HomeRegion: "eu-west-1",
		Auth:  Auth{Source: identity.SourceJWT, Issuer: "https://login.example.com/", Audience: "orders", Claim: "tenant_id"},
		Cells: map[string]string{"eu-1": "eu-west-1/222222222222"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	with := maps.Clone(doorVariables)
	with["CELLWALL_SNAPSHOT_BUCKET"] = "orders-global-0snap"
	if got, err = ParseFrontDoor(getenv(with)); err != nil || got.Snapshots != "orders-global-0snap" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = ParseFrontDoor(getenv(nil))
	for name := range doorVariables {
		if err == nil || !strings.Contains(err.Error()+"\n", name+" is not set\n") {
			t.Errorf("%s is not named:\n%v", name, err)
		}
	}
	for name, c := range map[string]struct {
		region, home string
		ok           bool
	}{
		"a replica":                {"us-east-1", "orders-directory", true},
		"a replica without a home": {"us-east-1", "", false},
		"home twice":               {"eu-west-1", "orders-directory", false},
	} {
		m := maps.Clone(doorVariables)
		m["CELLWALL_DIRECTORY_REGION"], m["CELLWALL_DIRECTORY_HOME"] = c.region, c.home
		if f, err := ParseFrontDoor(getenv(m)); (err == nil) != c.ok || c.ok && !f.Replica() {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestParseFrontDoorKeeper(t *testing.T) {
	least := map[string]string{"CELLWALL_SERVICE": "orders", "CELLWALL_CELLS": `{"eu-1":"eu-west-1/222222222222"}`, "CELLWALL_DIRECTORY": "orders-directory",
		"CELLWALL_DIRECTORY_REGION": "eu-west-1", "CELLWALL_SNAPSHOT_BUCKET": "orders-global-0snap"}
	want := FrontDoorKeeper{Service: "orders", Cells: map[string]string{"eu-1": "eu-west-1/222222222222"}, Directory: "orders-directory", DirectoryRegion: "eu-west-1", Snapshots: "orders-global-0snap"}
	got, err := ParseFrontDoorKeeper(getenv(least))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name := range least {
		one := maps.Clone(least)
		one[name] = ""
		if _, err := ParseFrontDoorKeeper(getenv(one)); err == nil || err.Error() != name+" is not set" {
			t.Errorf("without %s: %v", name, err)
		}
	}
	least["CELLWALL_ISSUER"], want.Issuer = "https://login.example.com/", "https://login.example.com/"
	if got, err = ParseFrontDoorKeeper(getenv(least)); err != nil || got.Issuer != want.Issuer {
		t.Errorf("%+v, %v", got, err)
	}
	if least["CELLWALL_CELLS"] = `["eu-1"]`; !OfFrontDoor(getenv(least)) || OfFrontDoor(getenv(keeperVariables)) {
		t.Error("whose keeper it is cannot be told")
	}
	if _, err := ParseFrontDoorKeeper(getenv(least)); err == nil || !strings.Contains(err.Error(), "CELLWALL_CELLS is") {
		t.Errorf("cells as a list: %v", err)
	}
}
