package dynamo

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/cli"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// TestCommands goes through the commands over the directory with the fleet's own tables and secret.
func TestCommands(t *testing.T) {
	service := names.ForFleet("orders")
	namedTable(t, service.DirectoryTable())
	namedTable(t, service.Cell("eu-1").Store())
	secrets := secretsmanager.NewFromConfig(emulator.Config(t, account, region))
	_, err := secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String(service.Cell("eu-1").PlacementKey()), SecretString: aws.String(`{"1":"` + strings.Repeat("0a", 32) + `"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	asOperator(t)
	inFleet(t, `service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  lambda: {asset: dist/worker, reservedConcurrency: 20}
  state: {mode: cell}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
`)
	if err := os.WriteFile("t.csv", []byte("tenant,cell\nt1,eu-1\nt2,eu-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		command string
		status  int
		words   string
	}{
		{"tenant add acme", 3, "no cell has headroom"},
		{"cell open eu-1 --capacity 100", 0, "open"},
		{"topology publish eu-1", 0, "s04"},
		{"tenant add acme --load 10", 0, "active, epoch 2"},
		{"tenant add big --load 61", 3, "no cell has headroom"},
		{"tenant pin acme s03 s01", 0, "epoch 3"},
		{"tenant suspend acme --epoch 2", 3, "expected epoch 2, found 3"},
		{"tenant show acme", 0, "holds it"},
		{"shard tenants eu-1/s03", 0, "acme"},
		{"tenant import t.csv", 0, "2 added"},
		{"tenant import t.csv", 0, "2 there before"},
		{"tenant list --cell eu-1", 0, "t2"},
		{"tenant history acme", 0, "pins none → s03 s01"},
		{"topology publish eu-1 --without s04", 0, "s03"},
		{"topology diff eu-1 --from 1 --to 2", 0, "of 3 tenants move"},
		{"topology migrate eu-1", 0, "3 tenants brought to topology 2"},
		{"topology retire eu-1 1", 0, "retired"},
		{"topology publish eu-1 --key-version 2 --accept-remap", 2, "version 2 is not there"},
		{"cell rotate-key eu-1", 0, "topology publish eu-1 --key-version 2 --without s04 --accept-remap --directory aws"},
		{"cell rotate-key eu-1", 0, "no other was added"},
		{"topology publish eu-1 --key-version 2", 3, "--accept-remap"},
		{"topology diff eu-1 --key-version 2 --without s04 --sum", 0, "draws all subsets anew"},
		{"topology publish eu-1 --key-version 2 --without s04 --accept-remap", 0, "s03"},
		{"topology migrate eu-1 --accept-remap", 0, "3 tenants brought to topology 3"},
		{"topology retire eu-1 2", 0, "retired"},
		{"tenant show acme", 0, "holds it"},
		{"cell rotate-key eu-1 --adopt 0", 2, "another generation"},
		{"cell headroom", 0, "60"},
		{"fleet validate", 0, "orders"},
	} {
		var out, errs bytes.Buffer
		args := append(strings.Fields(step.command), "--directory", "aws", "--by", "ann")
		status := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs)
		if status != step.status || !strings.Contains(out.String()+errs.String(), step.words) {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", step.command, status, step.status, step.words, &out, &errs)
		}
	}
	var out bytes.Buffer
	if status := cli.Run(t.Context(), []string{"shard", "tenants", "eu-1/s04", "--directory", "aws"}, strings.NewReader(""), &out, &out); status != 0 || out.Len() > 0 {
		t.Errorf("status %d, and shard s04, which left, holds %s", status, &out)
	}
}

// asOperator has commands find the credentials of the account in the environment.
func asOperator(t *testing.T) {
	t.Helper()
	for _, variable := range emulator.Environ(t, account, region) {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value)
		}
	}
}

// inFleet goes into a new folder with this fleet.
func inFleet(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("fleet.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
