package deploy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler/handlertest"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// keeper lets the deployed keeper run once, opens what it wrote, and has a router serve by that alone.
func (w *world) keeper(t *testing.T) {
	cell := w.of(canary)
	said, failure, err := invoke(t.Context(), w.in(t, canary), cell.Keeper()+":"+names.Alias, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if failure != "" {
		t.Errorf("the keeper failed: %s: %s", failure, said)
	}
	s := w.snapshot(t)
	if _, ok := s.Entries.Lookup("acme"); !ok || s.Entries.Len() != 2 {
		t.Errorf("the snapshot has %d tenants, and acme is among them: %v", s.Entries.Len(), ok)
	}
	if len(s.Topologies) != 2 || len(s.Keys["1"]) != 32 || !strings.Contains(string(s.IssuerKeys), keyID) {
		t.Errorf("the snapshot has %d topologies, a key of %d bytes, and of the issuer %s", len(s.Topologies), len(s.Keys["1"]), s.IssuerKeys)
	}
	var reported []string
	for _, r := range s.Health {
		reported = append(reported, r.Shard)
	}
	if ids := w.cell(t, canary).Shards.IDs(); !slices.Equal(slices.Sorted(slices.Values(reported)), ids) {
		t.Errorf("the snapshot tells of the shards %v, want %v", reported, ids)
	}
	t.Run("a router serves by it alone", w.servesBySnapshot)
}

// snapshot is the cell's, opened as a router opens it.
func (w *world) snapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	cell, config := w.of(canary), w.aws.Config(t, homeAccount, homeRegion)
	out, err := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true }).GetObject(t.Context(), &s3.GetObjectInput{
		Bucket: aws.String(cell.SnapshotBucket(homeAccount, homeRegion)), Key: aws.String(names.SnapshotObject)})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	sealed, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	router := kmsseal.ForRouter(kms.NewFromConfig(config), kmsseal.Config{Key: cell.SnapshotKey(), MACKey: cell.SnapshotMAC(), Service: w.fleet.Service, Cell: canary})
	s, err := snapshot.Open(t.Context(), router, sealed, snapshot.Want{Cell: canary, Now: time.Now(), Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// servesBySnapshot starts an environment of the deployed router for which directory and key store are not there:
// it serves whom the snapshot has, and nobody without the snapshot.
func (w *world) servesBySnapshot(t *testing.T) {
	name := aws.String(w.of(canary).Router())
	client := lambda.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	was, err := client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: name})
	if err != nil {
		t.Fatal(err)
	}
	change := func(t *testing.T, changes map[string]string) {
		t.Helper()
		env := &types.Environment{Variables: map[string]string{}}
		for k, v := range was.Environment.Variables {
			env.Variables[k] = v
		}
		for k, v := range changes {
			if env.Variables[k] == "" {
				t.Fatalf("the router has no %s", k)
			}
			env.Variables[k] = v
		}
		if _, err := client.UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{FunctionName: name, Environment: env}); err != nil {
			t.Fatal(err)
		}
	}
	defer change(t, nil)
	claims := map[string]string{w.fleet.Auth.Claim: "acme"}
	get := event(t, "GET", "/orders/1", "", handlertest.Bearer(`{"`+w.fleet.Auth.Claim+`":"acme"}`), claims)
	gone := map[string]string{"CELLWALL_DIRECTORY": "orders-not-there", "CELLWALL_KEY_SECRET": "not/there"}

	change(t, gone)
	if a := w.ask(t, *name+":$LATEST", get); a.Status != http.StatusOK {
		t.Errorf("with the snapshot alone, GET is answered %d: %s", a.Status, a.Body)
	}
	gone["CELLWALL_SNAPSHOT_BUCKET"] = "not-there-either"
	change(t, gone)
	if a := w.ask(t, *name+":$LATEST", get); a.Status != http.StatusServiceUnavailable {
		t.Errorf("with nothing at all, GET is answered %d: %s", a.Status, a.Body)
	}
}

// dispatch puts a job into the cell's dispatch queue, as a shard does that does not hold the job's tenant.
func (w *world) dispatch(t *testing.T) {
	const tenant = "acme"
	cell, config := w.of(canary), w.aws.Config(t, homeAccount, homeRegion)
	job := shardkit.Job{ID: "returned", Tenant: tenant, Epoch: 1, Dispatches: 1,
		Message: shardkit.Message{Method: http.MethodPost, Path: "/jobs/returned", Body: []byte("unpack")}}
	message, err := job.Encode()
	if err != nil {
		t.Fatal(err)
	}
	client, before := sqs.NewFromConfig(config), w.slices(t)
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(cell.Dispatch())})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: aws.String(string(message))}); err != nil {
		t.Fatal(err)
	}
	store, err := itemdynamo.New(dynamodb.NewFromConfig(config), itemdynamo.Tables{State: cell.Store(), Shard: "any"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job's result is in the cell's store", func() bool {
		body, found, err := store.Get(t.Context(), tenant, "JOB#returned")
		return err == nil && found && string(body) == "unpack"
	})
	eventually(t, "nothing waits to be dispatched", func() bool {
		a := w.attributes(t, cell.Dispatch())
		return a["ApproximateNumberOfMessages"] == "0" && a["ApproximateNumberOfMessagesNotVisible"] == "0"
	})
	if n := w.attributes(t, cell.DispatchDeadLetters())["ApproximateNumberOfMessages"]; n != "0" {
		t.Errorf("%s dead letters", n)
	}
	subset := w.subset(t, w.residence(t), tenant)
	for shard, n := range w.slices(t) {
		if n != before[shard] && !slices.Contains(subset, shard) {
			t.Errorf("shard %s was called, which is not in the subset %v", shard, subset)
		}
	}
}
