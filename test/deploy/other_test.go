package deploy

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// other is the cell of testdata/other.yaml.
const other = "eu-9"

// TestOtherShape deploys a cell in the shapes that the sample fleet does not have: a Function URL that streams, router
// environments that are kept started, NAT gateways, keys of the shards' own, schedules, shards in one zone each behind a
// load balancer of all, and what an account may ask for. It is read back, serves, and is destroyed.
func TestOtherShape(t *testing.T) {
	if testing.Short() {
		t.Skip("deploys a cell: left out by -short")
	}
	if !*whole {
		t.Skip("its templates are asserted in cdk/stamp; deployed by -whole, which make soak gives")
	}
	yaml, err := os.ReadFile(filepath.Join("testdata", "other.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, string(yaml))
	synth := w.synth(t, w.release)
	w.bootstrap(t)
	assembly := synth(t)
	w.deploy(t, assembly, "global")
	w.deployCell(t, assembly, other)
	w.open(t, w.residence(t), other)
	t.Run("Stands", w.standing)
	t.Run("AccountsAskFor", w.asked)
	t.Run("Provisioned", w.provisioned)
	t.Run("Keys", w.keys)
	t.Run("Serves", w.servesByURL)
	t.Run("Ticks", w.ticks)
	t.Run("Goes", func(t *testing.T) {
		gone := w.cell(t, other)
		w.cdk(t, w.dir, "destroy", "--app", assembly, "--force", "--exclusively", "--concurrency", "8", other+"/*")
		w.left[other], w.cells = gone, nil
		w.nothingElse(t)
		w.noNetwork(t, place{gone.Account, gone.Region})
		w.keysStay(t)
	})
}

// asked reads back the tags of all stacks, and the boundary of all roles.
func (w *world) asked(t *testing.T) {
	stacks, err := cloudformation.NewFromConfig(w.in(t, other)).DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stacks.Stacks {
		tags := map[string]string{}
		for _, tag := range s.Tags {
			tags[*tag.Key] = *tag.Value
		}
		for name, value := range w.fleet.Deploy.Tags {
			if tags[name] != value && *s.StackName != "CDKToolkit" {
				t.Errorf("stack %s has the tags %v", *s.StackName, tags)
			}
		}
	}
	client := iam.NewFromConfig(w.in(t, other))
	pages := iam.NewListRolesPaginator(client, &iam.ListRolesInput{})
	bounded := 0
	for pages.HasMorePages() {
		for _, r := range page(t, pages.NextPage).Roles {
			if strings.HasPrefix(*r.RoleName, "cdk-") {
				continue
			}
			role, err := client.GetRole(t.Context(), &iam.GetRoleInput{RoleName: r.RoleName})
			if err != nil {
				t.Fatal(err)
			}
			want := "arn:aws:iam::" + homeAccount + ":policy/" + w.fleet.Deploy.PermissionsBoundary
			if b := role.Role.PermissionsBoundary; b == nil || *b.PermissionsBoundaryArn != want {
				t.Errorf("role %s is bounded by %+v", *r.RoleName, b)
			}
			bounded++
		}
	}
	if bounded < 4 {
		t.Errorf("there are %d roles", bounded)
	}
}

// provisioned reads back the environments that are kept started.
func (w *world) provisioned(t *testing.T) {
	out, err := lambda.NewFromConfig(w.in(t, other)).GetProvisionedConcurrencyConfig(t.Context(), &lambda.GetProvisionedConcurrencyConfigInput{
		FunctionName: aws.String(w.of(other).Router()), Qualifier: aws.String(names.Alias)})
	if err != nil {
		t.Fatal(err)
	}
	if got := int(*out.RequestedProvisionedConcurrentExecutions); got != w.fleet.Router.ProvisionedConcurrency {
		t.Errorf("%d environments are kept started, want %d", got, w.fleet.Router.ProvisionedConcurrency)
	}
}

// keys reads back that what a shard keeps is encrypted under a key of its own.
func (w *world) keys(t *testing.T) {
	config := w.in(t, other)
	all := map[string]bool{}
	for _, id := range w.cell(t, other).Shards.IDs() {
		shard := w.of(other).Shard(id)
		out, err := kms.NewFromConfig(config).DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: aws.String(shard.Key())})
		if err != nil {
			t.Fatal(err)
		}
		key, arn := *out.KeyMetadata.KeyId, *out.KeyMetadata.Arn
		all[key] = true
		rotates, err := kms.NewFromConfig(config).GetKeyRotationStatus(t.Context(), &kms.GetKeyRotationStatusInput{KeyId: &key})
		if err != nil || !rotates.KeyRotationEnabled {
			t.Errorf("%s: the key does not rotate, %v", id, err)
		}
		under := map[string]string{}
		table, err := dynamodb.NewFromConfig(config).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(shard.Table())})
		if err != nil {
			t.Fatal(err)
		}
		if sse := table.Table.SSEDescription; sse != nil {
			under["table"] = aws.ToString(sse.KMSMasterKeyArn)
		}
		bucket, err := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true }).GetBucketEncryption(t.Context(), &s3.GetBucketEncryptionInput{
			Bucket: aws.String(shard.Bucket(homeAccount, homeRegion))})
		if err != nil {
			t.Fatal(err)
		}
		under["bucket"] = aws.ToString(bucket.ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.KMSMasterKeyID)
		under["queue"] = attributesOf(t, config, shard.Queue())["KmsMasterKeyId"]
		under["dead letters"] = attributesOf(t, config, shard.DeadLetters())["KmsMasterKeyId"]
		groups, err := cloudwatchlogs.NewFromConfig(config).DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{
			LogGroupNamePrefix: aws.String(shard.LogGroup("worker"))})
		if err != nil {
			t.Fatal(err)
		}
		under["log"] = aws.ToString(groups.LogGroups[0].KmsKeyId)
		for what, by := range under {
			if by != key && by != arn {
				t.Errorf("%s: the %s is encrypted under %q, want %s", id, what, by, arn)
			}
		}
	}
	if len(all) != 2 {
		t.Errorf("two shards have the keys %v", all)
	}
}

// keysStay expects the keys of a cell that went to be there still, and to be of use: what they encrypt stayed, too.
func (w *world) keysStay(t *testing.T) {
	t.Helper()
	client := kms.NewFromConfig(w.in(t, other))
	pages := kms.NewListKeysPaginator(client, &kms.ListKeysInput{})
	enabled := 0
	for pages.HasMorePages() {
		for _, k := range page(t, pages.NextPage).Keys {
			key, err := client.DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: k.KeyId})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(aws.ToString(key.KeyMetadata.Description), "Encrypts what shard ") && key.KeyMetadata.KeyState == kmstypes.KeyStateEnabled {
				enabled++
			}
		}
	}
	if enabled != 2 {
		t.Errorf("%d of two shards' keys are there", enabled)
	}
}

// servesByURL sends a tenant's requests to the router's Function URL, which takes everybody, and streams; the router
// verifies the token.
func (w *world) servesByURL(t *testing.T) {
	const tenant = "acme"
	r := w.residence(t)
	if _, err := r.SignUp(t.Context(), directory.SignUp{Tenant: tenant, Load: 1000}, change("sign up "+tenant)); err != nil {
		t.Fatal(err)
	}
	w.remember(t, other) // the issuer's keys
	url, err := lambda.NewFromConfig(w.in(t, other)).GetFunctionUrlConfig(t.Context(), &lambda.GetFunctionUrlConfigInput{
		FunctionName: aws.String(w.of(other).Router()), Qualifier: aws.String(names.Alias)})
	if err != nil {
		t.Fatal(err)
	}
	if url.AuthType != lambdatypes.FunctionUrlAuthTypeNone || url.InvokeMode != lambdatypes.InvokeModeResponseStream {
		t.Errorf("the URL is for %s, and %s", url.AuthType, url.InvokeMode)
	}
	claims := map[string]string{w.fleet.Auth.Claim: tenant}
	ask := func(method, path, body, token string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, strings.Replace(*url.FunctionUrl, "https://", "http://", 1)+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", token)
		}
		response, err := w.aws.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(answer)
	}
	token := w.issuer.bearer(t, w.issuer.key, w.fleet.Auth.Audience, claims)
	before := w.slicesOf(t, other)
	if status, body := ask("PUT", "orders/1", "two crates", token); status/100 != 2 {
		t.Fatalf("PUT is answered %d: %s", status, body)
	}
	if status, body := ask("GET", "orders/1", "", token); status != http.StatusOK || body != "two crates" {
		t.Errorf("GET is answered %d: %s", status, body)
	}
	subset := w.subset(t, r, tenant)
	for shard, n := range w.slicesOf(t, other) {
		if n -= before[shard]; (n == 2) != slices.Contains(subset, shard) {
			t.Errorf("shard %s was called %d times; the subset is %v", shard, n, subset)
		}
	}
	for name, token := range map[string]string{"no token": "", "a token that the issuer did not sign": w.issuer.bearer(t, newKey(t), w.fleet.Auth.Audience, claims)} {
		if status, body := ask("GET", "orders/1", "", token); status != http.StatusUnauthorized {
			t.Errorf("%s: answered %d: %s", name, status, body)
		}
	}
}

// ticks reads back the rules of the shards' schedules, and invokes what they name as EventBridge would.
func (w *world) ticks(t *testing.T) {
	config, at := w.in(t, other), w.cell(t, other)
	expressions := map[string]bool{}
	for _, id := range at.Shards.IDs() {
		shard := w.of(other).Shard(id)
		rule := map[string]string{"Name": shard.Schedule("sweep"), "Rule": shard.Schedule("sweep")}
		var described struct{ ScheduleExpression, State string }
		w.aws.Ask(t, at.Account, at.Region, "events", "1.1", "AWSEvents.DescribeRule", rule, &described)
		expressions[described.ScheduleExpression] = true
		var targets struct {
			Targets []struct {
				Arn              string
				InputTransformer struct {
					InputPathsMap map[string]string
					InputTemplate string
				}
			}
		}
		w.aws.Ask(t, at.Account, at.Region, "events", "1.1", "AWSEvents.ListTargetsByRule", rule, &targets)
		if len(targets.Targets) != 1 || !strings.HasSuffix(targets.Targets[0].Arn, ":function:"+shard.WorkerAlias()) || described.State != "ENABLED" {
			t.Fatalf("%s: by %+v %+v are invoked", id, described, targets)
		}
		// A schedule's event has its time; the transformer puts it in, in quotes.
		transformer, due := targets.Targets[0].InputTransformer, time.Now().UTC().Add(-15*time.Minute)
		if path := transformer.InputPathsMap["time"]; path != "$.time" {
			t.Errorf("%s: the time is %s of the event", id, path)
		}
		event := []byte(strings.ReplaceAll(transformer.InputTemplate, "<time>", due.Format(`"`+time.RFC3339+`"`)))
		if !json.Valid(event) {
			t.Errorf("%s: the event is %s", id, event)
		}
		if answer, failure, err := invoke(t.Context(), config, shard.WorkerAlias(), event); err != nil || failure != "" {
			t.Errorf("%s: the tick is answered %s, %s, %v", id, answer, failure, err)
		}
		eventually(t, "the slice says in its log that the schedule is due", func() bool {
			out, err := cloudwatchlogs.NewFromConfig(config).FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String(shard.LogGroup("worker"))})
			return err == nil && slices.ContainsFunc(out.Events, func(e logtypes.FilteredLogEvent) bool { return strings.Contains(*e.Message, "sweep") })
		})
	}
	if len(expressions) != 2 {
		t.Errorf("both shards have the times %v", expressions)
	}
}
