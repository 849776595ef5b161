//go:build linux

package rie

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// TestSnapshotStartsFrontDoors: the keeper's function writes a front door's snapshot, and front door environments
// that start while directory and issuer are down send every tenant in it to its cell.
func TestSnapshotStartsFrontDoors(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the emulator and a dozen environments")
	}
	const role = "arn:aws:iam::111111111111:role/orders-global-frontdoor-role-eu-west-1"
	fleet := names.ForFleet("orders")
	c := newKeptCell(t)
	doors := fleet.FrontDoorSnapshotBucket(account, region)
	c.makeSnapshotPlace(doors, fleet.FrontDoorSnapshotKey(), fleet.FrontDoorSnapshotMAC())
	shared := map[string]string{
		"CELLWALL_SERVICE": "orders", "CELLWALL_CELLS": `{"eu-1":"eu-west-1/111111111111","eu-2":"eu-west-1/222222222222"}`,
		"CELLWALL_DIRECTORY": fleet.DirectoryTable(), "CELLWALL_DIRECTORY_REGION": region, "CELLWALL_SNAPSHOT_BUCKET": doors,
	}
	with := func(of ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range of {
			maps.Copy(all, m)
		}
		return all
	}
	refused := "http://" + freeAddress(t)
	away := map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": refused, "AWS_ENDPOINT_URL_SECRETS_MANAGER": refused}
	auth := fmt.Sprintf(`{"source":"verify","issuer":%q,"audience":"orders","claim":"tenant_id"%%s}`, c.issuer.URL)
	frontDoor := func(more map[string]string) *environment {
		return start(t, "frontdoor", with(c.emulated, shared, map[string]string{
			"CELLWALL_ROLE": role, "CELLWALL_DIRECTORY_HOME_REGION": region, "CELLWALL_AUTH": fmt.Sprintf(auth, ""), "AWS_ENDPOINT_URL_LAMBDA": c.aws.URL}, more))
	}
	c.keep(`{}`) // the cell's own
	keeper := c.keeper
	c.keeper = start(t, "keeper", with(c.emulated, shared, map[string]string{"CELLWALL_ISSUER": c.issuer.URL}))
	c.keep(`{}`)
	// The cell's router is as cut off as the front door before it.
	behind := func() {
		c.functions["arn:aws:lambda:eu-west-1:111111111111:function:orders-eu-1-router:live"] = c.router(with(away, map[string]string{
			"CELLWALL_AUTH": fmt.Sprintf(auth, fmt.Sprintf(`,"frontDoors":[%q]`, role))}))
	}
	c.issuer.mode.Store(aborts)
	behind()
	asked := c.issuer.served.Load()
	door := frontDoor(away)
	if n := c.served(door, c.tenants); n != len(c.tenants) {
		t.Errorf("%d tenants of %d are served\n%s", n, len(c.tenants), door.output)
	}
	if n := c.issuer.served.Load(); n != asked {
		t.Errorf("the issuer answered %d requests meanwhile", n-asked)
	}
	// Many tenants that nobody has signed up, and then one that comes to this environment for the first time.
	flooded := frontDoor(nil)
	if n := c.served(flooded, strangers(60)); n != 0 {
		t.Errorf("%d strangers are served", n)
	}
	if n := c.served(flooded, c.few()); n != len(c.few()) {
		t.Errorf("%d tenants of %d are served after the flood\n%s", n, len(c.few()), flooded.output)
	}
	// A cell's snapshot, validly sealed, is none of a front door's.
	cells, err := c.objects.GetObject(t.Context(), &s3.GetObjectInput{Bucket: awssdk.String(bucket), Key: awssdk.String(names.SnapshotObject)})
	c.must(err)
	defer cells.Body.Close()
	ofCell, err := io.ReadAll(cells.Body)
	c.must(err)
	for what, body := range map[string]string{"is of cell": string(ofCell), "no snapshot, or a damaged one": "what is this"} {
		_, err = c.objects.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &doors, Key: awssdk.String(names.SnapshotObject), Body: strings.NewReader(body)})
		c.must(err)
		wrong := frontDoor(away)
		if n := c.served(wrong, c.few()); n != 0 || !strings.Contains(wrong.output.String(), what) {
			t.Errorf("%d tenants are served, want why not: %q\n%s", n, what, wrong.output)
		}
	}
	c.issuer.mode.Store(answers)
	c.keep(`{}`, "begun anew")
	c.enrol(1, "s03", "s04")
	c.keep(`{}`)
	c.keeper = keeper
	c.keep(`{}`)
	c.issuer.mode.Store(aborts)
	behind()
	if late := frontDoor(away); c.served(late, c.few()) != len(c.few()) {
		t.Errorf("not everybody is served after the keepers' next runs\n%s", late.output)
	}
}

// strangers are tenants that are in no directory.
func strangers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("stranger-%02d", i))
	}
	return list
}
