package dynamo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/cli"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// TestCommandsReachAccounts has the directory in one account and cells in two others. In every other account
// there are tables of the same names, which nobody may touch.
func TestCommandsReachAccounts(t *testing.T) {
	const spread = `service: spread
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  lambda: {asset: dist/worker, reservedConcurrency: 20}
  state: {mode: cell}
cells:
  - {name: eu-1, account: "222222222222", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: us-1, account: "333333333333", region: us-east-1, zones: [a, b], shards: 4}
`
	accounts := []string{account, "222222222222", "333333333333"}
	cells := map[string]struct{ account, region string }{"eu-1": {accounts[1], "eu-west-1"}, "us-1": {accounts[2], "us-east-1"}}
	service := names.ForFleet("spread")
	for _, in := range accounts {
		namedTableIn(t, in, region, service.DirectoryTable())
		for cell, at := range cells {
			namedTableIn(t, in, at.region, service.Cell(cell).Store())
		}
	}
	for cell, at := range cells {
		_, err := secretsmanager.NewFromConfig(emulator.Config(t, at.account, at.region)).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
			Name: aws.String(service.Cell(cell).PlacementKey()), SecretString: aws.String(`{"1":"` + strings.Repeat("0a", 32) + `"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	inFleet(t, spread)

	const role = " --role-name cellwall"
	for _, step := range []struct {
		as, command string // account of the credentials
		status      int
		words       string
	}{
		{accounts[1], "cell open eu-1 --capacity 100", 2, "and this lies in account 111111111111"},
		{accounts[1], "tenant list", 2, "--role-name"},
		{account, "cell open eu-1 --capacity 100", 0, "open"},
		{account, "topology publish eu-1", 0, "s04"},
		{account, "tenant add acme", 2, "and this lies in account 222222222222"},
		{account, "tenant show acme", 2, "not in the directory"},
		{account, "topology migrate eu-1", 2, "and this lies in account 222222222222"},
		{account, "topology diff eu-1", 2, "and this lies in account 222222222222"},
		{account, "tenant add acme" + role, 0, "cell eu-1, active, epoch 2"},
		{account, "tenant show acme", 2, "and this lies in account 222222222222"},
		{account, "tenant pin acme s01", 2, "and this lies in account 222222222222"},
		{account, "tenant list", 0, "acme"},
		{accounts[1], "tenant pin acme s03 s01" + role, 0, "epoch 3"}, // the directory is the other account then
		{accounts[1], "tenant show acme" + role, 0, "holds it"},
		{account, "topology publish us-1", 0, "s04"},
		{account, "cell open us-1 --capacity 1000", 0, "open"},
		{account, "tenant add far" + role, 0, "cell us-1, active"},
		{account, "topology publish us-1 --without s04", 0, "s03"},
		{account, "topology migrate us-1" + role, 0, "1 tenant brought to topology 2"},
		{account, "shard tenants eu-1/s03" + role, 0, "acme"},
		{account, "shard tenants eu-1/s03", 2, "and this lies in account 222222222222"},
		{account, "tenant list --role-name arn:aws:iam::1:role/x", 2, "no name of an IAM role"},
	} {
		for _, variable := range emulator.Environ(t, step.as, region) {
			if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
				t.Setenv(name, value)
			}
		}
		var out, errs bytes.Buffer
		status := cli.Run(t.Context(), append(strings.Fields(step.command), "--directory", "aws", "--by", "ann"), strings.NewReader(""), &out, &errs)
		if status != step.status || !strings.Contains(out.String()+errs.String(), step.words) {
			t.Errorf("%s as %s: status %d, want %d and %q\n%s%s", step.command, step.as, status, step.status, step.words, &out, &errs)
		}
	}
	for _, in := range accounts {
		if got, want := stored(t, in, region, service.DirectoryTable()) > 0, in == account; got != want {
			t.Errorf("the directory's table in account %s has items: %t", in, got)
		}
		for cell, at := range cells {
			if got, want := stored(t, in, at.region, service.Cell(cell).Store()) > 0, in == at.account; got != want {
				t.Errorf("the store of %s in account %s has items: %t", cell, in, got)
			}
		}
	}
}

func stored(t *testing.T, account, region, table string) int32 {
	t.Helper()
	out, err := dynamodb.NewFromConfig(emulator.Config(t, account, region)).Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, Select: types.SelectCount})
	if err != nil {
		t.Fatal(err)
	}
	return out.Count
}
