package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/change"
)

// assemblyOf writes a cloud assembly of a cell of orders with one queue for each shard into a new folder.
func assemblyOf(t *testing.T, folder, cell string, shards ...string) {
	t.Helper()
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var artifacts []string
	for _, s := range shards {
		name := "orders-" + cell + "-shard-" + s
		write(name+".json", fmt.Sprintf(`{"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain", "Properties": {"QueueName": "orders-%s-%s-work"}}}}`, cell, s))
		artifacts = append(artifacts, fmt.Sprintf(`%q: {"type": "aws:cloudformation:stack", "environment": "aws://111111111111/eu-west-1", "displayName": "%s/shard-%s",
			"properties": {"templateFile": "%s.json", "stackName": %q, "tags": {"cellwall:service": "orders", "cellwall:cell": %q, "cellwall:shard": %q}}}`, name, cell, s, name, name, cell, s))
	}
	write("manifest.json", `{"version": "52.0.0", "artifacts": {`+strings.Join(artifacts, ",")+`}}`)
}

func TestFleetDiffOfAssemblies(t *testing.T) {
	t.Chdir(t.TempDir())
	assemblyOf(t, "was", "eu-1", "s01", "s02")
	assemblyOf(t, "next", "eu-1", "s01", "s03")

	code, out, errs := runFleet(t, "diff", "was", "was")
	if code != ExitDone || out != "no stack changes\n" || errs != "" {
		t.Errorf("with itself: status %d, %q, %q", code, out, errs)
	}
	code, out, errs = runFleet(t, "diff", "was", "next")
	const want = `cell eu-1
  stack orders-eu-1-shard-s02 (111111111111, eu-west-1): removed, 1 resource, 1 left behind; deploying removes no stack, cdk destroy does, over the old assembly
    = queue orders-eu-1-s02-work is left behind
  stack orders-eu-1-shard-s03 (111111111111, eu-west-1): added, 1 resource
    + 1 queue

`
	if code != ExitDone || out != want {
		t.Errorf("status %d, got:\n%s", code, out)
	}
	if !strings.Contains(errs, "note: shards go; whether a topology still names them was not asked") {
		t.Errorf("it says %q", errs)
	}

	code, out, _ = runFleet(t, "diff", "--json", "was", "next")
	var r change.Report
	if err := json.Unmarshal([]byte(out), &r); code != ExitDone || err != nil {
		t.Fatalf("status %d, %v", code, err)
	}
	if len(r.Stacks) != 2 || r.Stacks[0].Kind != change.Removed || r.Stacks[1].Shard != "s03" || r.Billed == nil || r.Refused == nil {
		t.Errorf("the answer is %s", out)
	}
}

// TestFleetDiffRefuses: what is lost for good has status 3, after all has been said.
func TestFleetDiffRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	assemblyOf(t, "was", "eu-1", "s01")
	assemblyOf(t, "next", "eu-1", "s01")
	file := filepath.Join("next", "orders-eu-1-shard-s01.json")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "-work", "-jobs")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := runFleet(t, "diff", "was", "next")
	if code != ExitFound || !strings.Contains(out, "\nrefused\n  stack orders-eu-1-shard-s01: replaces queue Queue\n") || !strings.Contains(errs, "1 reason not to deploy this") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
}

// TestFleetDiffAsksTheDirectory: a shard that a live topology names is not to go; one that none names may.
func TestFleetDiffAsksTheDirectory(t *testing.T) {
	o := openOffice(t)
	assemblyOf(t, "was", "eu-1", "s01", "s02", "s03", "s04", "s05", "s06")
	assemblyOf(t, "next", "eu-1", "s01", "s02", "s03", "s04", "s05")
	code, out, _ := o.run("fleet", "diff", "was", "next", "--json")
	var r change.Report
	if err := json.Unmarshal([]byte(out), &r); code != ExitFound || err != nil {
		t.Fatalf("status %d, %v: %s", code, err, out)
	}
	if len(r.Refused) != 1 || r.Refused[0].What != "loses shard s06 of cell eu-1" || !strings.Contains(r.Refused[0].Why, "topology 1") || len(r.Notes) > 0 {
		t.Errorf("refused %+v, notes %q", r.Refused, r.Notes)
	}
	o.must("topology", "publish", "eu-1", "--without", "s06")
	o.must("topology", "migrate", "eu-1")
	o.must("topology", "retire", "eu-1", "1")
	if code, out, errs := o.run("fleet", "diff", "was", "next"); code != ExitDone {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
}

// TestFleetDiffOfAnotherService: a directory of another service has nothing to say about these shards.
func TestFleetDiffOfAnotherService(t *testing.T) {
	o := openOffice(t)
	assemblyOf(t, "was", "eu-1", "s01")
	text, err := os.ReadFile("was/manifest.json")
	if err == nil {
		err = os.WriteFile("was/manifest.json", []byte(strings.ReplaceAll(string(text), `"orders"`, `"others"`)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := o.run("fleet", "diff", "was", "was"); code != ExitUsage || !strings.Contains(errs, "others") {
		t.Errorf("status %d, %s", code, errs)
	}
}

// TestFleetDiffWrongUse: what is no fleet and no assembly, and where nothing can be synthesised.
func TestFleetDiffWrongUse(t *testing.T) {
	inFolder(t, smallFleet)
	assemblyOf(t, "was", "eu-1", "s01")
	if err := os.WriteFile("broken.yaml", []byte("service: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"was"}, "accepts 2 arg(s)"},
		{[]string{"was", ""}, "argument 2 is empty"},
		{[]string{"was", "none"}, "none: no such file"},
		{[]string{"was", "empty"}, "no manifest.json"},
		{[]string{"broken.yaml", "was"}, "broken.yaml has"},
		{[]string{"was", "fleet.yaml"}, "there is no cdk.json here"},
		{[]string{os.DevNull, "was"}, "neither a regular file nor a directory"},
		{[]string{"was", "was", "-c", "arch=x86_64"}, "both are cloud assemblies"},
		{[]string{"was", "fleet.yaml", "-c", "arch"}, `--context is "arch", which sets nothing`},
		{[]string{"was", "fleet.yaml", "-c", "=x86_64"}, `--context is "=x86_64", which sets nothing`},
		{[]string{"was", "fleet.yaml", "-c", "fleet=other.yaml"}, "names a fleet file beside OLD and NEW"},
		{[]string{"was", "was", "--accept-key-change", " "}, "has no reason"},
	} {
		code, out, errs := runFleet(t, append([]string{"diff"}, c.args...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "hint: ") && c.args[0] != "broken.yaml" {
			t.Errorf("%q: status %d, %q, %s", c.args, code, out, errs)
		}
	}
}

// TestFleetDiffSynthesises: fleet files are given to the project's CDK CLI, and what it writes is compared and
// removed. The CLI here is a stand-in that copies an assembly; the real one is run in test/deploy.
func TestFleetDiffSynthesises(t *testing.T) {
	inFolder(t, smallFleet)
	old := strings.Replace(smallFleet, "reservedConcurrency: 20", "reservedConcurrency: 10", 1)
	if err := os.WriteFile("old.yaml", []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	assemblyOf(t, "assembly", "eu-1", "s01")
	if err := os.MkdirAll("node_modules/.bin", 0o700); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	script := "#!/bin/sh\necho \"$@\" >>asked\necho 'node is old' >&2\necho 'Successfully synthesized'\ntest ! -e fails || { echo 'no such thing' >&2; exit 1; }\ncp assembly/* \"$5\"\n"
	for name, text := range map[string]string{"cdk.json": "{}", cdkCLI: script} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := runFleet(t, "diff", "old.yaml", "fleet.yaml", "-c", "arch=x86_64")
	if code != ExitDone || !strings.Contains(out, "  shard.lambda.reservedConcurrency: 10 → 20\n") || errs != "synthesising old.yaml\nsynthesising fleet.yaml\n" {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile("asked")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(asked)), "\n") {
		want := "--context fleet=" + filepath.Join(here, []string{"old.yaml", "fleet.yaml"}[i]) + " --context audit=off --context arch=x86_64"
		if !strings.HasPrefix(line, "synth ** --quiet --output "+tmp) || !strings.HasSuffix(line, want) {
			t.Errorf("the CDK was asked %q", line)
		}
	}
	if code, out, errs := runFleet(t, "diff", "old.yaml", "assembly", "--verbose"); code != ExitDone || strings.Contains(out, "Successfully") || errs != "synthesising old.yaml\nnode is old\nSuccessfully synthesized\n" {
		t.Errorf("with --verbose: status %d, %s%s", code, out, errs)
	}
	if code, _, errs := runFleet(t, "diff", "old.yaml", "assembly", "-c", "cell=eu-1"); code != ExitUsage || !strings.Contains(errs, "of one of the two alone") {
		t.Errorf("of one cell on one side: status %d, %s", code, errs)
	}
	if err := os.WriteFile("fails", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runFleet(t, "diff", "old.yaml", "fleet.yaml"); code != ExitFailed || out != "" || !strings.Contains(errs, "no such thing\nerror: cdk synth of old.yaml: exit status 1\nhint: ") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFleetDiffOfKeys: data leaves its key only when somebody says why that may be.
func TestFleetDiffOfKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	assemblyOf(t, "was", "eu-1", "s01", "s02")
	assemblyOf(t, "next", "eu-1", "s01", "s02")
	for _, shard := range []string{"s01", "s02"} {
		file := filepath.Join("was", "orders-eu-1-shard-"+shard+".json")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(strings.Replace(string(text), `"Properties": {`, `"Properties": {"KmsMasterKeyId": "alias/own", `, 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := runFleet(t, "diff", "was", "next")
	if code != ExitFound || !strings.Contains(out, "\nrefused\n  in 2 stacks, orders-eu-1-shard-s01 orders-eu-1-shard-s02: takes queue Queue from its KMS key alias/own\n") || !strings.Contains(errs, "2 reasons not to deploy this") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	code, out, errs = runFleet(t, "diff", "was", "next", "--accept-key-change", "both queues are empty")
	if code != ExitDone || strings.Contains(out, "\nrefused\n") || !strings.Contains(out, "\naccepted\n  in 2 stacks") || !strings.Contains(out, "\n    because: both queues are empty\n") {
		t.Errorf("accepted: status %d, %s%s", code, out, errs)
	}
	var r change.Report
	code, out, _ = runFleet(t, "diff", "was", "next", "--json", "--accept-key-change", "both queues are empty")
	if err := json.Unmarshal([]byte(out), &r); code != ExitDone || err != nil || len(r.Refused) > 0 || len(r.Accepted) != 2 || r.Accepted[1].Reason != "both queues are empty" {
		t.Errorf("as JSON: status %d, %v, %s", code, err, out)
	}
}
