package dynamo

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/cli"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// TestACellStampedAgain: a cell is destroyed while a tenant is in it, and stamped again as another generation, whose
// store is empty and whose key is another. With the key of before its shards hold the tenant where it was.
func TestACellStampedAgain(t *testing.T) {
	const fleet = `service: again
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  lambda: {asset: dist/worker, reservedConcurrency: 20}
  state: {mode: cell}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
`
	service := names.ForFleet("again")
	namedTable(t, service.DirectoryTable())
	secrets := secretsmanager.NewFromConfig(emulator.Config(t, account, region))
	stamp := func(c names.Cell, digits string) {
		t.Helper()
		namedTable(t, c.Store())
		_, err := secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
			Name: aws.String(c.PlacementKey()), SecretString: aws.String(`{"` + c.KeyVersion(1) + `":"` + strings.Repeat(digits, 32) + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	asOperator(t)
	run := func(command string, status int, words string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), append(strings.Fields(command), "--directory", "aws", "--by", "ann"), strings.NewReader(""), &out, &errs)
		if got != status || !strings.Contains(out.String()+errs.String(), words) {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", command, got, status, words, &out, &errs)
		}
	}
	first := service.Cell("eu-1")
	stamp(first, "0a")
	inFleet(t, fleet)
	run("cell open eu-1 --capacity 100", 0, "open")
	run("topology publish eu-1", 0, "s04")
	run("tenant add acme", 0, "active")

	second := first.Generation(1)
	stamp(second, "0b")
	inFleet(t, strings.Replace(fleet, "shards: 4", "shards: 4, generation: 1", 1))
	run("cell reconcile eu-1", 1, "version 1 is not there")
	run("topology publish eu-1", 3, "draws the subsets of all tenants anew")
	run("cell rotate-key eu-1 --adopt 2", 1, "placement-key-g2")
	run("cell rotate-key eu-1 --adopt 0", 0, `has got these versions of its placement key: "1"`)
	run("cell rotate-key eu-1 --adopt 0", 0, "already")
	run("cell reconcile eu-1", 0, "2 missing")
	if stored(t, account, region, second.Store()) == 0 {
		t.Error("nobody holds the tenant in the store of generation 1")
	}
	run("tenant show acme", 0, "holds it")
	run("cell rotate-key eu-1", 0, "topology publish eu-1 --key-version g1-1 --accept-remap")
	run("topology publish eu-1 --accept-remap", 0, "g1-1")
	run("topology migrate eu-1 --accept-remap", 0, "1 tenant brought to topology 2")
}

// TestManyRotate: of keys that many add at once none is lost.
func TestManyRotate(t *testing.T) {
	secrets := secretsmanager.NewFromConfig(emulator.Config(t, account, region))
	name := names.ForFleet("many").Cell("eu-1").PlacementKey()
	if _, err := secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: &name, SecretString: aws.String("{}")}); err != nil {
		t.Fatal(err)
	}
	const many = 4 // fewer than Add has tries
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			version := names.ForFleet("many").Cell("eu-1").KeyVersion(i + 1)
			added, err := secretkey.Add(t.Context(), secrets, name, func([]string) (map[string][]byte, error) {
				return map[string][]byte{version: bytes.Repeat([]byte{byte(i)}, 32)}, nil
			})
			if err != nil || len(added) != 1 {
				t.Errorf("version %s: %v, %v", version, added, err)
			}
		})
	}
	wg.Wait()
	all, err := secretkey.All(t.Context(), secrets, name)
	if err != nil || len(all) != many {
		t.Errorf("%d versions, %v", len(all), err)
	}
}
