// Package stacks deploys the stages of a small assembly, made by hand, with the real CDK command line and the SDK against
// the emulator: what internal/rollout/release and its two adapters promise together.
package stacks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"cellwall.dev/cellwall/internal/adapter/cdkdeploy"
	"cellwall.dev/cellwall/internal/adapter/cfnstack"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
	"cellwall.dev/cellwall/test/awsemu"
)

const (
	account, region = "111111111111", "eu-west-1"
	cell            = "canary"
	description     = `
service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders, claim: tenant_id}
placement: {scheme: rendezvous/v1, perTenant: 2}
shard: {capacity: 1000, lambda: {asset: dist/worker, reservedConcurrency: 20}}
routes: [{path: /*, via: lambda}]
cells:
  - {name: canary, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
`
)

type object = map[string]any

// assembly writes an assembly of the fleet, in which each stack has a queue whose messages stay hidden for that long.
func assembly(t *testing.T, f *fleet.Fleet, seconds int) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, v any) string {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	role := func(what string) string {
		return "arn:${AWS::Partition}:iam::" + account + ":role/cdk-hnb659fds-" + what + "-role-" + account + "-" + region
	}
	const bucket = "cdk-hnb659fds-assets-" + account + "-" + region
	c, _ := f.Cell(cell)
	n := f.NamesOf(c)
	artifacts := object{}
	sub := "assembly-" + cell + "/"
	stack := func(id, name string, tags object) {
		hash := put(sub+id+".template.json", object{"Description": fmt.Sprint(seconds), "Resources": object{
			"Queue": object{"Type": "AWS::SQS::Queue", "Properties": object{"QueueName": name, "VisibilityTimeout": seconds}}}})
		put(sub+id+".assets.json", object{"version": "55.0.0", "dockerImages": object{}, "files": object{hash: object{
			"source": object{"path": id + ".template.json", "packaging": "file"},
			"destinations": object{"x": object{"bucketName": bucket, "objectKey": hash + ".json", "region": region,
				"assumeRoleArn": role("file-publishing")}}}}})
		artifacts[id+".assets"] = object{"type": "cdk:asset-manifest", "properties": object{"file": id + ".assets.json"}}
		artifacts[id] = object{"type": "aws:cloudformation:stack", "environment": "aws://" + account + "/" + region, "displayName": cell + "/" + id,
			"dependencies": []string{id + ".assets"}, "properties": object{
				"templateFile": id + ".template.json", "stackName": name, "tags": tags, "terminationProtection": false,
				"assumeRoleArn": role("deploy"), "cloudFormationExecutionRoleArn": role("cfn-exec"),
				"stackTemplateAssetObjectUrl": "s3://" + bucket + "/" + hash + ".json", "additionalDependencies": []string{id + ".assets"}}}
	}
	stack("core", n.Stack(), object{"cellwall:service": f.Service, "cellwall:cell": cell})
	stack("watch", n.WatchStack(), object{"cellwall:service": f.Service, "cellwall:cell": cell})
	for _, s := range c.Shards {
		stack("shard-"+s.ID, n.Shard(s.ID).Stack(), object{"cellwall:service": f.Service, "cellwall:cell": cell, "cellwall:shard": s.ID})
	}
	put(sub+"manifest.json", object{"version": "55.0.0", "artifacts": artifacts})
	put("manifest.json", object{"version": "55.0.0", "artifacts": object{"assembly-" + cell: object{"type": "cdk:cloud-assembly",
		"properties": object{"directoryName": "assembly-" + cell, "displayName": cell}}}})
	put("cdk.out", object{"version": "55.0.0"})
	return dir
}

// world is a fleet of one cell, and two assemblies of it.
type world struct {
	aws        *awsemu.Emulator
	fleet      *fleet.Fleet
	folder     *release.Folder
	cdk        *cdkdeploy.CLI
	cloud      *cfnstack.Stacks
	stacks     *release.Stacks // of the second
	first, own string          // digests
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{aws: awsemu.Start(t)}
	environ := append(w.aws.Environ(t, account, region), "HOME="+t.TempDir(), "CDK_DISABLE_CLI_TELEMETRY=true", "NODE_NO_WARNINGS=1")
	program := filepath.Join(root, cdkdeploy.DefaultProgram)
	bootstrap := exec.CommandContext(t.Context(), program, "bootstrap", "aws://"+account+"/"+region)
	bootstrap.Dir, bootstrap.Env = t.TempDir(), environ
	if out, err := bootstrap.CombinedOutput(); err != nil {
		t.Fatalf("cdk bootstrap: %v\n%s", err, out)
	}
	if w.fleet, err = fleet.Parse("fleet.yaml", []byte(description)); err != nil {
		t.Fatal(err)
	}
	if w.folder, err = release.NewFolder(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	keep := func(seconds int) string {
		a, err := release.Open(assembly(t, w.fleet, seconds))
		if err == nil {
			err = release.Check(w.fleet, a)
		}
		if err == nil {
			_, err = w.folder.Keep(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.Digest
	}
	w.first, w.own = keep(10), keep(20)
	if w.cdk, err = cdkdeploy.New(cdkdeploy.Config{Program: program, Environ: environ, Logs: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	config := w.aws.Config(t, account, region)
	w.cloud = cfnstack.New(func(_ context.Context, at release.Place) (cfnstack.Client, error) {
		if at != (release.Place{Account: account, Region: region}) {
			return nil, fmt.Errorf("%s is nowhere", at)
		}
		return cloudformation.NewFromConfig(config), nil
	})
	w.stacks = w.of(t, w.cdk)
	return w
}

// of are the stacks of a rollout of the second assembly, prepared by p.
func (w *world) of(t *testing.T, p release.Preparer) *release.Stacks {
	t.Helper()
	s, err := release.NewStacks(w.fleet, w.own, w.folder, p, w.cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func leave(context.Context) error { return nil }

func (w *world) is(t *testing.T, stage string, status rollout.StackStatus, digest string) {
	t.Helper()
	if r, err := w.stacks.Read(t.Context(), cell, stage, ""); err != nil || r.Stack != status || r.Digest != digest {
		t.Errorf("%s is %s with %q, %v; want %s with %q", stage, r.Stack, r.Digest, err, status, digest)
	}
}

// TestStages is the life of a cell's stages.
func TestStages(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the CDK's command line a dozen times: left out by -short")
	}
	w := newWorld(t)
	ctx := t.Context()
	// All stages at once, which nothing was before: several processes deploy from one folder.
	stages := []string{"core", "zone-a", "zone-b", "watch"}
	w.is(t, "zone-a", rollout.Absent, "")
	var wg sync.WaitGroup
	for _, stage := range stages {
		wg.Go(func() {
			if err := w.stacks.Prepare(ctx, cell, stage, w.first, 1); err != nil {
				t.Errorf("prepare %s: %v", stage, err)
			}
		})
	}
	wg.Wait()
	for _, stage := range stages {
		w.is(t, stage, rollout.Absent, "")
		if err := w.stacks.Execute(ctx, cell, stage, w.first, 1, leave); err != nil {
			t.Fatalf("execute %s: %v", stage, err)
		}
		w.is(t, stage, rollout.Complete, w.first)
	}

	t.Run("Forward", func(t *testing.T) {
		if err := w.stacks.Prepare(ctx, cell, "zone-a", w.own, 2); err != nil {
			t.Fatal(err)
		}
		w.is(t, "zone-a", rollout.Complete, w.first)
		lost := errors.New("the lease is lost")
		if err := w.stacks.Execute(ctx, cell, "zone-a", w.own, 2, func(context.Context) error { return lost }); !errors.Is(err, lost) {
			t.Errorf("without leave: %v", err)
		}
		w.is(t, "zone-a", rollout.Complete, w.first)
		for range 2 { // the second finds that it was executed
			if err := w.stacks.Execute(ctx, cell, "zone-a", w.own, 2, leave); err != nil && !strings.Contains(err.Error(), "there is none") {
				t.Fatal(err)
			}
			w.is(t, "zone-a", rollout.Complete, w.own)
		}
		w.is(t, "zone-b", rollout.Complete, w.first)
	})
	t.Run("Again", func(t *testing.T) { // the change sets are empty
		if err := w.stacks.Prepare(ctx, cell, "zone-a", w.own, 3); err != nil {
			t.Fatal(err)
		}
		if err := w.stacks.Execute(ctx, cell, "zone-a", w.own, 3, func(context.Context) error { return errors.New("asked") }); err != nil {
			t.Errorf("nothing is to be changed: %v", err)
		}
		w.is(t, "zone-a", rollout.Complete, w.own)
	})
	t.Run("Back", func(t *testing.T) {
		if err := w.stacks.Restore(ctx, cell, "zone-a", w.first, 3, leave); err != nil {
			t.Fatal(err)
		}
		w.is(t, "zone-a", rollout.Complete, w.first)
	})
	t.Run("SaysAllIsWell", func(t *testing.T) { // exit status 0, and nothing was made
		idle := filepath.Join(t.TempDir(), "cdk")
		if err := os.WriteFile(idle, []byte("#!/bin/sh\necho '✅  canary/core (no changes)'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cdk, err := cdkdeploy.New(cdkdeploy.Config{Program: idle})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.of(t, cdk).Prepare(ctx, cell, "core", w.own, 4); err == nil || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("%v", err)
		}
	})
	t.Run("Obsolete", func(t *testing.T) { // what another has prepared for a state that is gone
		if err := w.stacks.Prepare(ctx, cell, "zone-b", w.own, 5); err != nil {
			t.Fatal(err)
		}
		if err := w.stacks.Restore(ctx, cell, "zone-b", w.own, 6, leave); err != nil {
			t.Fatal(err)
		}
		if err := w.stacks.Execute(ctx, cell, "zone-b", w.own, 5, leave); err == nil || !strings.HasPrefix(err.Error(), "nothing was executed") {
			t.Errorf("%v", err)
		}
	})
	t.Run("Fails", func(t *testing.T) {
		w.aws.Obstruct(t, "orders-canary-shard-s03", awsemu.Fail)
		if err := w.stacks.Prepare(ctx, cell, "zone-a", w.own, 7); err != nil {
			t.Fatal(err)
		}
		err := w.stacks.Execute(ctx, cell, "zone-a", w.own, 7, leave)
		if err == nil || !strings.Contains(err.Error(), "stack orders-canary-shard-s03 in 111111111111/eu-west-1 is UPDATE_ROLLBACK_COMPLETE") {
			t.Errorf("%v", err)
		}
		t.Log(err)
		w.is(t, "zone-a", rollout.RolledBack, "") // one is new, one old
		if err := w.stacks.Restore(ctx, cell, "zone-a", w.first, 7, leave); err != nil {
			t.Errorf("the way back: %v", err)
		}
		w.is(t, "zone-a", rollout.RolledBack, w.first)
	})
	t.Run("Held", func(t *testing.T) { // whoever waits may go, and the stack is under way
		w.aws.Obstruct(t, "orders-canary-core", awsemu.Hold)
		if err := w.stacks.Prepare(ctx, cell, "core", w.own, 8); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithCancel(ctx)
		go func() {
			for s := rollout.Absent; s != rollout.InProgress && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
				r, _ := w.stacks.Read(ctx, cell, "core", "")
				s = r.Stack
			}
			cancel()
		}()
		if err := w.stacks.Execute(short, cell, "core", w.own, 8, leave); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		w.is(t, "core", rollout.InProgress, "")
		if err := w.stacks.Prepare(ctx, cell, "core", w.own, 9); err == nil || !strings.Contains(err.Error(), "nothing is prepared for it") {
			t.Errorf("%v", err)
		}
		w.aws.Obstruct(t, "orders-canary-core")
		until := time.Now().Add(time.Minute)
		for s := rollout.InProgress; s == rollout.InProgress && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			r, _ := w.stacks.Read(ctx, cell, "core", "")
			s = r.Stack
		}
		w.is(t, "core", rollout.Complete, w.own)
	})
	t.Run("Stuck", func(t *testing.T) {
		w.aws.Obstruct(t, "orders-canary-watch", awsemu.Fail, awsemu.Stuck)
		if err := w.stacks.Prepare(ctx, cell, "watch", w.own, 10); err != nil {
			t.Fatal(err)
		}
		err := w.stacks.Execute(ctx, cell, "watch", w.own, 10, leave)
		if err == nil || !strings.Contains(err.Error(), "continue-update-rollback --region eu-west-1 --stack-name orders-canary-watch") {
			t.Errorf("%v", err)
		}
		t.Log(err)
		if r, err := w.stacks.Read(ctx, cell, "watch", ""); err != nil || r.Stack != rollout.Stuck {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
