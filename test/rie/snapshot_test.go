//go:build linux

package rie

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler/handlertest"
	"cellwall.dev/cellwall/test/awsemu"
)

const (
	account, region = "111111111111", "eu-west-1"
	bucket          = "orders-eu-1-0snap"
)

// keptCell is a cell whose directory, secret, bucket and keys are the emulator's, and whose slices are
// processes.
type keptCell struct {
	*testing.T
	*aws                        // where slices are invoked, and where they keep what they hold
	emulated  map[string]string // variables of who uses the emulator
	directory *directory.Directory
	objects   *s3.Client
	keys      *kms.Client
	tenants   []string
	keeper    *environment
	issuer    *login
}

// login is a token issuer that can be down, or hang.
type login struct {
	*httptest.Server
	key    *rsa.PrivateKey
	served atomic.Int32
	mode   atomic.Int32
}

// How an issuer answers.
const (
	answers = iota
	aborts
	hangs
)

func newLogin(t *testing.T) *login {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	l := &login{key: key}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch l.mode.Load() {
		case aborts:
			panic(http.ErrAbortHandler)
		case hangs:
			<-r.Context().Done()
			return
		}
		l.served.Add(1)
		if r.URL.Path == "/keys" {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "a", Algorithm: "RS256", Use: "sig"}}})
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, l.URL, l.URL+"/keys")
	}))
	t.Cleanup(l.Close)
	return l
}

// token is a tenant's.
func (l *login) token(t *testing.T, tenant string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: l.key, KeyID: "a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"orders","tenant_id":%q,"exp":%d}`, l.URL, tenant, time.Now().Add(time.Hour).Unix()))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func newKeptCell(t *testing.T) *keptCell {
	t.Helper()
	emu := awsemu.Start(t)
	c := &keptCell{T: t, aws: newAWS(t), emulated: map[string]string{}}
	for _, v := range emu.Environ(t, account, region) {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			c.emulated[name] = value
		}
	}
	config := emu.Config(t, account, region)
	c.must(c.makeTable(dynamodb.NewFromConfig(config)))
	c.objects = s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true })
	c.keys = kms.NewFromConfig(config)
	c.makeSnapshotPlace(bucket, cell.SnapshotKey(), cell.SnapshotMAC())
	_, err := secretsmanager.NewFromConfig(config).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: awssdk.String(cell.PlacementKey()), SecretString: awssdk.String(`{"1":"` + strings.Repeat("5a", 32) + `"}`)})
	c.must(err)

	c.directory, err = directory.Open(t.Context(), dynamodir.New(dynamodb.NewFromConfig(config), names.ForFleet("orders").DirectoryTable()))
	c.must(err)
	_, err = c.directory.AddCell(t.Context(), directory.Cell{Name: "eu-1"}, c.change("add"))
	c.must(err)
	_, err = c.directory.Publish(t.Context(), topology(1, "1", "s01", "s02", "s03", "s04"), c.change("publish"))
	c.must(err)
	c.enrol(500, "s01", "s02")
	for _, shard := range []string{"s01", "s02", "s03", "s04"} {
		c.functions[cell.Shard(shard).WorkerAlias()] = start(t, "worker", c.aws.environment(map[string]string{
			"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_SHARD": shard, "CELLWALL_TABLE": cell.Store(),
			"CELLWALL_SHARD_TABLE": cell.Shard(shard).Table(),
		}))
	}
	c.issuer = newLogin(t)
	variables := maps.Clone(c.emulated)
	maps.Copy(variables, map[string]string{
		"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_KEY_SECRET": cell.PlacementKey(),
		"CELLWALL_DIRECTORY": names.ForFleet("orders").DirectoryTable(), "CELLWALL_DIRECTORY_REGION": region,
		"CELLWALL_SNAPSHOT_BUCKET": bucket, "CELLWALL_ISSUER": c.issuer.URL,
	})
	c.keeper = start(t, "keeper", variables)
	return c
}

// makeSnapshotPlace makes a bucket, and the keys with these aliases.
func (c *keptCell) makeSnapshotPlace(bucket, key, mac string) {
	c.Helper()
	_, err := c.objects.CreateBucket(c.Context(), &s3.CreateBucketInput{Bucket: &bucket,
		CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: region}})
	c.must(err)
	for alias, in := range map[string]*kms.CreateKeyInput{
		key: {},
		mac: {KeySpec: kmstypes.KeySpecHmac256, KeyUsage: kmstypes.KeyUsageTypeGenerateVerifyMac},
	} {
		out, err := c.keys.CreateKey(c.Context(), in)
		c.must(err)
		_, err = c.keys.CreateAlias(c.Context(), &kms.CreateAliasInput{AliasName: &alias, TargetKeyId: out.KeyMetadata.KeyId})
		c.must(err)
	}
}

func (c *keptCell) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *keptCell) change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", At: time.Now()}
}

func (c *keptCell) makeTable(client *dynamodb.Client) error {
	key := func(hash, sort string) []dynamotypes.KeySchemaElement {
		return []dynamotypes.KeySchemaElement{{AttributeName: &hash, KeyType: dynamotypes.KeyTypeHash}, {AttributeName: &sort, KeyType: dynamotypes.KeyTypeRange}}
	}
	var attributes []dynamotypes.AttributeDefinition
	for _, name := range []string{names.PartitionKey, names.SortKey, names.FirstIndexKey, names.SecondIndexKey} {
		attributes = append(attributes, dynamotypes.AttributeDefinition{AttributeName: awssdk.String(name), AttributeType: dynamotypes.ScalarAttributeTypeS})
	}
	index := func(name, hash string) dynamotypes.GlobalSecondaryIndex {
		return dynamotypes.GlobalSecondaryIndex{IndexName: &name, KeySchema: key(hash, names.PartitionKey), Projection: &dynamotypes.Projection{ProjectionType: dynamotypes.ProjectionTypeAll}}
	}
	_, err := client.CreateTable(c.Context(), &dynamodb.CreateTableInput{
		TableName: awssdk.String(names.ForFleet("orders").DirectoryTable()), BillingMode: dynamotypes.BillingModePayPerRequest,
		KeySchema: key(names.PartitionKey, names.SortKey), AttributeDefinitions: attributes,
		GlobalSecondaryIndexes: []dynamotypes.GlobalSecondaryIndex{index(names.FirstIndex, names.FirstIndexKey), index(names.SecondIndex, names.SecondIndexKey)},
	})
	return err
}

// enrol has the directory know as many more tenants, and every shard hold them. Each third is pinned.
func (c *keptCell) enrol(n int, pins ...string) {
	c.Helper()
	var entries []directory.Entry
	for range n {
		e := directory.Entry{Tenant: fmt.Sprintf("tenant-%03d", len(c.tenants)), Cell: "eu-1", State: directory.Active, Topology: 1}
		if len(c.tenants)%3 == 0 {
			e.Pins = pins
		}
		for _, shard := range []string{"s01", "s02", "s03", "s04"} {
			c.hold(shard, e.Tenant, 1)
		}
		entries = append(entries, e)
		c.tenants = append(c.tenants, e.Tenant)
	}
	enrolled, err := c.directory.Enrol(c.Context(), entries, c.change("enrol "+entries[0].Tenant))
	c.must(err)
	if enrolled.Created != n {
		c.Fatalf("%d tenants of %d were enrolled", enrolled.Created, n)
	}
}

// few are some of the tenants, pinned and other ones, and the latest.
func (c *keptCell) few() []string {
	return append(slices.Clone(c.tenants[:12]), c.tenants[len(c.tenants)-1])
}

// keep runs the keeper, whose answer must be null or an error that says all of says.
func (c *keptCell) keep(event string, says ...string) {
	c.Helper()
	_, answer, err := c.keeper.invoke(c.Context(), []byte(event))
	c.must(err)
	if len(says) == 0 && string(answer) != "null" {
		c.Fatalf("the keeper answered %s\n%s", answer, c.keeper.output)
	}
	for _, s := range says {
		if !strings.Contains(string(answer), s) {
			c.Errorf("the keeper answered %s, want %q\n%s", answer, s, c.keeper.output)
		}
	}
}

// router starts a router environment that has its slices, bucket and keys, and the rest as it is told.
func (c *keptCell) router(more map[string]string) *environment {
	c.Helper()
	variables := maps.Clone(c.emulated)
	maps.Copy(variables, routerVariables())
	variables["CELLWALL_SNAPSHOT_BUCKET"] = bucket
	variables["CELLWALL_AUTH"] = fmt.Sprintf(`{"source":"verify","issuer":%q,"audience":"orders","claim":"tenant_id"}`, c.issuer.URL)
	for _, service := range []string{"LAMBDA", "SQS"} {
		variables["AWS_ENDPOINT_URL_"+service] = c.aws.URL
	}
	maps.Copy(variables, more)
	return start(c.T, "router", variables)
}

// served is how many of the tenants a router serves.
func (c *keptCell) served(router *environment, tenants []string) (n int) {
	c.Helper()
	for _, tenant := range tenants {
		request := bytes.Replace(event(c.T, "", "PUT", "/orders/1", "one"), []byte(`"authorization":"`+handlertest.Bearer("")), []byte(`"authorization":"Bearer `+c.issuer.token(c.T, tenant)), 1)
		status, answer, err := router.invoke(c.Context(), request)
		c.must(err)
		resp, err := awsevent.ParseAnswer(answer)
		if status != http.StatusOK || err != nil {
			c.Fatalf("the router's emulator answered %d %s, %v\n%s", status, answer, err, router.output)
		}
		if resp.Status == http.StatusNoContent {
			n++
		}
	}
	return n
}

// hanging is an address that takes connections and never answers.
func hanging(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
		}
	}()
	t.Cleanup(func() {
		cancel()
		l.Close()
	})
	return "http://" + l.Addr().String()
}

// TestSnapshotStartsRouters: the keeper's function writes a cell's snapshot, and router environments that
// start while directory, secret store and issuer are down serve every tenant in it.
func TestSnapshotStartsRouters(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the emulator and a dozen environments")
	}
	c := newKeptCell(t)
	refused := "http://" + freeAddress(t)
	away := func(address string) map[string]string {
		return map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": address, "AWS_ENDPOINT_URL_SECRETS_MANAGER": address}
	}

	t.Run("without a snapshot and with everything else", func(t *testing.T) {
		r := c.router(nil)
		if n := c.served(r, c.few()); n != len(c.few()) {
			t.Errorf("%d tenants of %d are served\n%s", n, len(c.few()), r.output)
		}
		if !strings.Contains(r.output.String(), "starts without a snapshot") {
			t.Errorf("it does not say so:\n%s", r.output)
		}
	})
	c.keep(`{}`)
	for name, down := range map[string]struct {
		address string
		issuer  int32
	}{"refuse": {refused, aborts}, "hang": {hanging(t), hangs}} {
		t.Run("directory, secret store and issuer "+name, func(t *testing.T) {
			c.issuer.mode.Store(down.issuer)
			defer c.issuer.mode.Store(answers)
			asked := c.issuer.served.Load()
			r := c.router(away(down.address))
			if n := c.served(r, c.tenants); n != len(c.tenants) {
				t.Errorf("%d tenants of %d are served\n%s", n, len(c.tenants), r.output)
			}
			if n := c.issuer.served.Load(); n != asked {
				t.Errorf("the issuer answered %d requests meanwhile", n-asked)
			}
			for _, secret := range []string{strings.Repeat("5a", 32), "WlpaWlpa"} {
				if strings.Contains(r.output.String(), secret) {
					t.Error("the placement key is in the log")
				}
			}
		})
	}
	t.Run("bucket and key service hang, the others answer", func(t *testing.T) {
		for _, service := range []string{"S3", "KMS"} {
			r := c.router(map[string]string{"AWS_ENDPOINT_URL_" + service: hanging(t)})
			if n := c.served(r, c.few()); n != len(c.few()) {
				t.Errorf("%s: %d tenants of %d are served\n%s", service, n, len(c.few()), r.output)
			}
		}
	})
	t.Run("nothing answers at all", func(t *testing.T) {
		c.issuer.mode.Store(aborts)
		defer c.issuer.mode.Store(answers)
		r := c.router(map[string]string{"AWS_ENDPOINT_URL": refused})
		if n := c.served(r, c.few()); n != 0 {
			t.Errorf("%d tenants are served by nobody's word", n)
		}
	})
	t.Run("the issuer is down, and who came is in the next one", func(t *testing.T) {
		c.issuer.mode.Store(aborts)
		defer c.issuer.mode.Store(answers)
		c.enrol(1, "s03", "s04")
		c.keep(`{}`, "issuer's keys", "EOF")
		r := c.router(away(refused))
		if n := c.served(r, c.few()); n != len(c.few()) {
			t.Errorf("%d tenants of %d are served\n%s", n, len(c.few()), r.output)
		}
	})
	t.Run("a damaged object", func(t *testing.T) {
		_, err := c.objects.PutObject(t.Context(), &s3.PutObjectInput{Bucket: awssdk.String(bucket), Key: awssdk.String(names.SnapshotObject), Body: strings.NewReader("what is this")})
		c.must(err)
		r := c.router(away(refused))
		if n := c.served(r, c.few()); n != 0 || !strings.Contains(r.output.String(), "no snapshot, or a damaged one") {
			t.Errorf("%d tenants are served\n%s", n, r.output)
		}
		c.keep(`{}`, "begun anew")
		if n := c.served(c.router(away(refused)), c.few()); n != len(c.few()) {
			t.Errorf("%d tenants of %d are served after the keeper's next run", n, len(c.few()))
		}
	})
}
