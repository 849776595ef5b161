package deploy

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/test/cdkcli"
)

// directoryInTwoSteps deploys the directory as docs/deploying.md says: first its replicas, then their
// policies. Both at once is refused.
func (w *world) directoryInTwoSteps(t *testing.T, assembly, withReplicas string) {
	out := w.cdkFails(t, w.dir, append(cdkcli.DeployArgs(assembly), "global")...)
	if !strings.Contains(out, "cannot be created together with its resource policy") {
		t.Errorf("the failure does not say what is wrong:\n%s", out)
	}
	if got := w.stacks(t, homeAccount, homeRegion)[w.names.Stack()]; got != "ROLLBACK_COMPLETE" {
		t.Errorf("the global stack is %q", got)
	}
	w.deploy(t, withReplicas, "global")
	said, before := w.foretold(t, w.release, withReplicas, assembly), w.look(t)
	w.deploy(t, assembly, "global")
	global := strings.Join([]string{homeAccount, homeRegion, w.names.Stack()}, "/")
	asForetold(t, fates{global: said[global]}, w.happened(t, before)) // the cells differ, too, and are not deployed
}

// firstDeploymentFails lets the first deployments of the core and of a shard fail at a late resource,
// whose name is taken, and expects them to leave nothing behind that fails the next ones.
func (w *world) firstDeploymentFails(t *testing.T, assembly string) {
	config := w.aws.Config(t, homeAccount, homeRegion)
	cell := w.of(canary)
	fails := func(stack, physical string) {
		t.Helper()
		out := w.cdkFails(t, w.dir, append(cdkcli.DeployArgs(assembly), stack)...)
		if got := w.stacks(t, homeAccount, homeRegion)[physical]; got != "ROLLBACK_COMPLETE" {
			t.Fatalf("stack %s is %q:\n%s", physical, got, out)
		}
	}

	tables, store := dynamodb.NewFromConfig(config), aws.String(cell.Store())
	_, err := tables.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: store, BillingMode: ddb.BillingModePayPerRequest,
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: aws.String(names.PartitionKey), AttributeType: ddb.ScalarAttributeTypeS}},
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: aws.String(names.PartitionKey), KeyType: ddb.KeyTypeHash}}})
	if err != nil {
		t.Fatal(err)
	}
	fails(canary+"/core", cell.Stack())
	if _, err := tables.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: store}); err != nil {
		t.Fatal(err)
	}
	w.deploy(t, assembly, canary+"/core")

	id := w.cell(t, canary).Shards.IDs()[0]
	shard := cell.Shard(id)
	buckets := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true })
	bucket := aws.String(shard.Bucket(homeAccount, homeRegion))
	_, err = buckets.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket,
		CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: homeRegion}})
	if err != nil {
		t.Fatal(err)
	}
	fails(canary+"/shard-"+id, shard.Stack())
	if _, err := buckets.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	w.deploy(t, assembly, canary+"/shard-"+id)
}
