// Package fleet is the one input of cellwall: the description of a service's cells and shards that
// stands in fleet.yaml. It decodes strictly, fills defaults, checks every rule in one pass, and hands
// out values that need no further checking.
//
// # Guarantees
//
//  1. Inside: every fault points to a line and column of the file.
//  2. Deterministic: the same bytes give the same fleet, or the same faults in the same order.
//  3. Round trip: a valid fleet, written as YAML and parsed again, is the same fleet.
//  4. Whole waves: the waves reach each cell exactly once, and each wave reaches at least one.
//  5. Within quota: no account and region reserves more Lambda concurrency than AWS allows, nor has more rules of
//     EventBridge.
//  6. Enough shards: a tenant of any size finds its number of shards in every cell.
//  7. Distinct: no two resources of a fleet have the same derived name.
//  8. In place: Pin changes the images that it is given, and no other byte of a file.
//
// Only Load reads a file; nothing else does I/O.
package fleet

import (
	"strings"
	"time"
)

// Fleet is all cells of one service. A Fleet that came out of Load or Parse is valid: its defaults are
// filled in and every rule holds.
//
// The tags say what a value may be, once for the decoder, the JSON Schema and docs/fleet.md: yaml has
// the key, which is required without omitempty; jsonschema has bounds, defaults and choices; shape and
// keys name a form in shapes. Rules between values are the checker's.
type Fleet struct {
	// Dir is the folder of the fleet file, where relative asset paths start.
	Dir string `yaml:"-"`
	// Notes are the settings that have no effect, or not all of what one may expect.
	Notes []Note `yaml:"-"`
	// Service names the service: [a-z][a-z0-9-]{0,15}. It leads every AWS name.
	Service string `yaml:"service" shape:"name"`
	// Directory says where the tenant directory's table lives.
	Directory Directory `yaml:"directory"`
	// Accounts holds settings per 12-digit AWS account id; an account without an entry has the defaults.
	Accounts map[string]Account `yaml:"accounts,omitempty" keys:"account"`
	// Auth says whose tokens are trusted and which claim names the tenant.
	Auth Auth `yaml:"auth"`
	// Placement turns a tenant into its subset of shards.
	Placement Placement `yaml:"placement,omitempty"`
	// Budget is what the service may lose; a cell may differ.
	Budget Budget `yaml:"budget,omitempty"`
	// Routes say which path travels by which transport; the first match wins. A route via queue takes POST,
	// PUT, PATCH and DELETE only: other methods go on to the next route that matches, and get 404 without one.
	Routes []Route `yaml:"routes,omitempty" jsonschema:"minItems=1,maxItems=100"`
	// Router sizes each cell's routing function and says what it lets through.
	Router Router `yaml:"router,omitempty"`
	// Keeper writes each cell's and front door's snapshot, from which they serve while what they ask is down.
	Keeper Keeper `yaml:"keeper,omitempty"`
	// FrontDoor is one entrance for all cells, which sends each tenant to its own; absent means off.
	FrontDoor *FrontDoor `yaml:"frontDoor,omitempty"`
	// Shard is what every shard is made of. An absent block means that the part is off.
	Shard Shard `yaml:"shard"`
	// Alerts says who is told.
	Alerts *Alerts `yaml:"alerts,omitempty"`
	// Deploy is what the accounts ask of every stack.
	Deploy Deploy `yaml:"deploy,omitempty"`
	// Audit is what the audit goes by, in cdk synth and cdk deploy as on its own.
	Audit Audit `yaml:"audit,omitempty"`
	// Cells are stamped in this order.
	Cells []Cell `yaml:"cells" jsonschema:"minItems=1,maxItems=1000"`
	// Rollout says in which waves a change travels.
	Rollout Rollout `yaml:"rollout,omitempty"`
}

// Directory is the home of the tenant directory.
type Directory struct {
	Account  string   `yaml:"account" shape:"account"`           // 12 digits, in quotes
	Region   string   `yaml:"region" shape:"region"`             // home region of the table
	Replicas []string `yaml:"replicas,omitempty" shape:"region"` // further regions of the global table, each once
}

// Account is what is known of one AWS account.
type Account struct {
	// LambdaConcurrency is the account's concurrent executions per region (default 1,000, AWS's own
	// default quota L-B99A9384). AWS keeps 100 of it unreserved.
	LambdaConcurrency int `yaml:"lambdaConcurrency,omitempty" jsonschema:"minimum=100,maximum=1000000,default=1000"`
	// EventRules is how many rules the default event bus takes in each of the account's regions; by default 300, or 100
	// in af-south-1 and eu-south-1, which are AWS's own. Every keeper has one, and every shard one for each schedule.
	EventRules int `yaml:"eventRules,omitempty" jsonschema:"minimum=1,maximum=100000"`
}

// Auth says whose tokens are trusted.
type Auth struct {
	Issuer   string `yaml:"issuer" shape:"issuer"`                                        // https URL, exactly as in the token's iss
	Audience string `yaml:"audience" shape:"audience"`                                    // must stand in the token's aud
	Claim    string `yaml:"claim,omitempty" jsonschema:"default=tenant_id" shape:"claim"` // names the tenant; default tenant_id
	// Source is who verifies the caller: jwt (default), the API's JWT authorizer; lambda, the API's Lambda
	// authorizer, whose context has the tenant under claim; iam, the API by IAM, and principals names the
	// tenant; verify, the router itself, and the API lets everybody through to it.
	Source AuthSource `yaml:"source,omitempty" jsonschema:"enum=jwt,enum=lambda,enum=iam,enum=verify,default=jwt"`
	// Algorithms are the signatures that the router takes where it verifies tokens itself; default RS256.
	// API Gateway's own authorizer takes RSA-based ones.
	Algorithms []string `yaml:"algorithms,omitempty" jsonschema:"minItems=1,maxItems=10" shape:"algorithm"`
	// AuthorizerARN is the Lambda function of source lambda.
	AuthorizerARN string `yaml:"authorizerArn,omitempty" shape:"function"`
	// Principals are the tenants of source iam, by the ARN of an IAM role or user.
	Principals map[string]string `yaml:"principals,omitempty" keys:"principal" shape:"tenant"`
	// PathTenant is where a path names the tenant, too: it must be the caller's own, or the answer is 403.
	PathTenant string `yaml:"pathTenant,omitempty" shape:"pathTenant"`
	// BodyTenant is the member of a JSON body that names the tenant, too, with the same rule.
	BodyTenant string `yaml:"bodyTenant,omitempty" shape:"claim"`
}

// AuthSource is who verifies the caller of a request.
type AuthSource string

const (
	AuthJWT    AuthSource = "jwt"    // the API's JWT authorizer
	AuthLambda AuthSource = "lambda" // the API's Lambda authorizer
	AuthIAM    AuthSource = "iam"    // the API, by IAM
	AuthVerify AuthSource = "verify" // the router itself
)

// Placement configures the scheme that computes subsets.
type Placement struct {
	Scheme    string          `yaml:"scheme,omitempty" jsonschema:"enum=hmac/v1,enum=rendezvous/v1,enum=bounded/v1,default=rendezvous/v1"` // hmac/v1, rendezvous/v1 (default) or bounded/v1
	PerTenant int             `yaml:"perTenant,omitempty" jsonschema:"minimum=1,default=2"`                                                // k, shards per tenant; default 2
	MaxShared int             `yaml:"maxShared,omitempty" jsonschema:"minimum=0,maximum=14"`                                               // the most shards that two tenants share, under bounded/v1 alone; default 0
	Sizes     map[string]Size `yaml:"sizes,omitempty" keys:"name"`                                                                         // size classes that differ
}

// Size is one size class of tenants.
type Size struct {
	PerTenant int `yaml:"perTenant" jsonschema:"minimum=1"` // k for this class
}

// Budget is what the service may lose when ConcurrentFailures shards of a cell fail.
type Budget struct {
	ConcurrentFailures int      `yaml:"concurrentFailures,omitempty" jsonschema:"minimum=1"` // shards of a cell that fail together; default 1
	DegradedTenants    *Percent `yaml:"degradedTenants,omitempty"`                           // tenants with at least one of their shards failed
	CapacityLoss       *Percent `yaml:"capacityLoss,omitempty"`                              // share of its capacity that the worst tenant loses
	FullyDown          *Percent `yaml:"fullyDown,omitempty"`                                 // tenants with all of their shards failed
}

// Percent is a share in hundredths of one per cent: 15% is 1500, 100% is 10000.
type Percent int

// Route sends the paths that match it by one transport.
type Route struct {
	Path   string `yaml:"path" shape:"path"`                                 // begins with /; a trailing /* matches the rest
	Via    string `yaml:"via" jsonschema:"enum=lambda,enum=http,enum=queue"` // lambda, http or queue
	Fanout bool   `yaml:"fanout,omitempty"`                                  // ask every shard of the subset, by GET alone, and gather their answers in one
	// Timeout is for one attempt at one shard; default router.attemptTimeout.
	Timeout time.Duration `yaml:"timeout,omitempty"`
}

// Router sizes the routing function of every cell and says what it lets through.
type Router struct {
	Memory              int `yaml:"memory,omitempty" jsonschema:"minimum=128,maximum=10240,default=512"` // MB, 128 to 10240; default 512
	ReservedConcurrency int `yaml:"reservedConcurrency,omitempty" jsonschema:"minimum=1,default=100"`    // counts against the account; default 100
	// AttemptTimeout is for one attempt at one shard, 100ms to 28s; default 5s. A shard that hangs holds the
	// router for as long with each request: plan checks that this stays below half of its reservation.
	AttemptTimeout time.Duration `yaml:"attemptTimeout,omitempty"`
	// TenantRate is the most requests per second that one tenant may make; 0, the default, is no limit. More
	// get 429. The router knows it by and large only: each of its environments counts for itself.
	TenantRate int `yaml:"tenantRate,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// TenantBurst is how many requests a tenant may make at once before TenantRate counts; default TenantRate.
	TenantBurst int `yaml:"tenantBurst,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// TenantConcurrency is the most requests of one tenant that are under way, in a local cell alone; 0, the
	// default, is no limit.
	TenantConcurrency int `yaml:"tenantConcurrency,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// FanoutConcurrency is the most requests under way on routes with fanout, in a local cell alone; default 10.
	FanoutConcurrency int `yaml:"fanoutConcurrency,omitempty" jsonschema:"minimum=1,maximum=100000,default=10"`
	// ProvisionedConcurrency is how many environments of the router are kept started, fewer than ReservedConcurrency; 0,
	// the default, is none. They are paid for by the hour.
	ProvisionedConcurrency int `yaml:"provisionedConcurrency,omitempty" jsonschema:"minimum=0"`
	// Ingress is what stands before the router: api (default), an HTTP API; url, a Function URL, for auth.source
	// iam or verify.
	Ingress RouterIngress `yaml:"ingress,omitempty" jsonschema:"enum=api,enum=url,default=api"`
	// Stream has a Function URL pass answers on while they are being made.
	Stream bool `yaml:"stream,omitempty"`
	// HashTenants has logs and metrics name a tenant by the first 26 characters of base32(SHA-256(id)).
	HashTenants bool `yaml:"hashTenants,omitempty"`
}

// RouterIngress is what stands before the router.
type RouterIngress string

const (
	IngressAPI RouterIngress = "api" // an HTTP API
	IngressURL RouterIngress = "url" // a Function URL
)

// Keeper is the function that writes a cell's snapshot.
type Keeper struct {
	Every  time.Duration `yaml:"every,omitempty"`                                                     // between two snapshots, whole minutes, 1m to 15m; default 1m
	Memory int           `yaml:"memory,omitempty" jsonschema:"minimum=128,maximum=10240,default=512"` // MB, 128 to 10240; default 512
}

// FrontDoor is the function that sends a tenant to its cell. Its keeper reserves a concurrency of 1 beside it.
type FrontDoor struct {
	Memory              int `yaml:"memory,omitempty" jsonschema:"minimum=128,maximum=10240,default=512"` // MB, 128 to 10240; default 512
	ReservedConcurrency int `yaml:"reservedConcurrency,omitempty" jsonschema:"minimum=1,default=100"`    // counts against the directory's account, as does 1 for its keeper; default 100
}

// Shard is the make-up of every shard. A nil block is off.
type Shard struct {
	// Capacity is the requests per second that a load test gave one shard; 0 when not measured yet.
	Capacity int     `yaml:"capacity,omitempty" jsonschema:"minimum=0"`
	HTTP     *HTTP   `yaml:"http,omitempty"`   // the target group with its Auto Scaling group
	Lambda   *Lambda `yaml:"lambda,omitempty"` // the reserved-concurrency slice
	Queue    *Queue  `yaml:"queue,omitempty"`  // the queue with its dead-letter queue; needs lambda
	Table    *Table  `yaml:"table,omitempty"`  // the shard's own DynamoDB table
	Bucket   *Bucket `yaml:"bucket,omitempty"` // the shard's own S3 bucket
	State    State   `yaml:"state,omitempty"`  // where the service's state lives
	// Zones is where a shard's instances are: all (default), in every zone of the cell; one, in the shard's own.
	Zones ShardZones `yaml:"zones,omitempty" jsonschema:"enum=all,enum=one,default=all"`
	// Encryption is by whose key a shard's table, bucket, queues and logs are encrypted: aws (default), keys of AWS;
	// own, a KMS key of the shard's.
	Encryption Encryption `yaml:"encryption,omitempty" jsonschema:"enum=aws,enum=own,default=aws"`
	// Schedules have each shard's Lambda slice invoked at times that differ from shard to shard.
	Schedules []Schedule `yaml:"schedules,omitempty" jsonschema:"minItems=1,maxItems=20"`
}

// ShardZones says in how many of its cell's zones a shard is.
type ShardZones string

const (
	ZonesAll ShardZones = "all" // every zone of the cell
	ZonesOne ShardZones = "one" // the shard's own
)

// Encryption is by whose key something is encrypted.
type Encryption string

const (
	EncryptionAWS Encryption = "aws" // a key of AWS
	EncryptionOwn Encryption = "own" // a KMS key of the shard's own
)

// Schedule is a job that every shard does by itself, of no tenant. In each shard it fires at an offset that follows
// from cell, shard and name, so that nothing fires everywhere at once.
type Schedule struct {
	Name  string        `yaml:"name" shape:"name"` // what the service is told; unique
	Every time.Duration `yaml:"every"`             // whole minutes that divide an hour, or whole hours that divide a day; 1m to 24h
}

// HTTP is the target group with its Auto Scaling group.
type HTTP struct {
	Asset        string            `yaml:"asset" shape:"asset"`                                                        // folder with the built service, beside fleet.yaml
	Command      string            `yaml:"command,omitempty" shape:"command"`                                          // file in Asset that systemd starts; default the asset's base name
	Port         int               `yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535,default=8080"`           // that the service listens on; default 8080
	AMIs         map[string]string `yaml:"amis" shape:"ami" keys:"amiKey"`                                             // region/architecture to the id of an AMI made from Amazon Linux 2023
	InstanceType string            `yaml:"instanceType,omitempty" jsonschema:"default=t4g.small" shape:"instanceType"` // its family tells the architecture; default t4g.small
	Min          int               `yaml:"min,omitempty" jsonschema:"minimum=1,maximum=1000,default=2"`                // instances; default 2
	Max          int               `yaml:"max,omitempty" jsonschema:"minimum=1,maximum=1000"`                          // instances, reached while they use more than 60 % of their processors; default 3 × Min
	HealthPath   string            `yaml:"healthPath,omitempty" jsonschema:"default=/healthz" shape:"path"`            // answers 200 to the load balancer and, on a new instance, to the deployment; default /healthz
	Ingress      Ingress           `yaml:"ingress,omitempty"`                                                          // per-shard (default), shared or {grouped: m}: shards behind a load balancer
}

// Lambda is the reserved-concurrency slice.
type Lambda struct {
	Asset               string `yaml:"asset" shape:"asset"`                                                 // folder with an executable named bootstrap
	Memory              int    `yaml:"memory,omitempty" jsonschema:"minimum=128,maximum=10240,default=512"` // MB, 128 to 10240; default 512
	Timeout             int    `yaml:"timeout,omitempty" jsonschema:"minimum=1,maximum=900,default=20"`     // seconds, 1 to 900; default 20
	ReservedConcurrency int    `yaml:"reservedConcurrency" jsonschema:"minimum=1"`                          // at least 1
}

// Queue is the shard's queue, its dead-letter queue and the consumer, which is the Lambda slice.
type Queue struct {
	MaxReceive int `yaml:"maxReceive,omitempty" jsonschema:"minimum=1,maximum=1000,default=5"` // deliveries before the dead-letter queue, 1 to 1,000; default 5
	Consumers  int `yaml:"consumers,omitempty" jsonschema:"minimum=2,maximum=1000,default=2"`  // the event source's maximum concurrency, 2 to 1,000 and below lambda.reservedConcurrency; default 2
}

// Table is the shard's own DynamoDB table. It is paid by request, and bounded, so that one shard cannot use up what
// the account's tables may do together; the defaults are what a new table takes at once (Amazon DynamoDB developer
// guide, on-demand capacity mode).
type Table struct {
	MaxReads  int `yaml:"maxReads,omitempty" jsonschema:"minimum=1,maximum=1000000,default=12000"` // read request units per second; default 12,000
	MaxWrites int `yaml:"maxWrites,omitempty" jsonschema:"minimum=1,maximum=1000000,default=4000"` // write request units per second; default 4,000
}

// Bucket is the shard's own S3 bucket.
type Bucket struct{}

// State says where the service's state lives.
type State struct {
	Mode StateMode `yaml:"mode,omitempty" jsonschema:"enum=none,enum=cell,enum=home,default=none"` // none (default): shards are stateless; cell: one store for the cell; home: each key in one shard, which needs a table
	// IdempotencyKeys says that the service writes the record of an Idempotency-Key in the transaction of the
	// effect, in a store that every shard of the tenant reaches, so that the router may repeat a keyed
	// request; not with home. The router then answers 400 to a key that is neither one string in quotes nor bare: 1 to
	// 255 visible ASCII characters without quotes and commas.
	IdempotencyKeys bool `yaml:"idempotencyKeys,omitempty"`
}

// StateMode is one of the three places that state may have.
type StateMode string

const (
	StateNone StateMode = "none" // shards are stateless
	StateCell StateMode = "cell" // one store of the cell, which every member of a subset reaches
	StateHome StateMode = "home" // each resource key has one member of the subset
)

// Alerts says who is told.
type Alerts struct {
	TopicARN string            `yaml:"topicArn,omitempty" shape:"topic"`             // an SNS standard topic, for what is in its region
	Topics   map[string]string `yaml:"topics,omitempty" keys:"region" shape:"topic"` // the same for further regions
}

// Topic is the topic for the alarms of a region, since alarms tell topics of their own region alone; "" for none.
func (a *Alerts) Topic(region string) string {
	switch {
	case a == nil:
		return ""
	case topicRegion(a.TopicARN) == region:
		return a.TopicARN
	}
	return a.Topics[region]
}

func topicRegion(arn string) string {
	if parts := strings.Split(arn, ":"); len(parts) > 3 {
		return parts[3]
	}
	return ""
}

// Deploy is what the accounts ask of every stack.
type Deploy struct {
	// Qualifier is that of the accounts' CDK bootstrap; default hnb659fds, the CDK's own.
	Qualifier string `yaml:"qualifier,omitempty" jsonschema:"default=hnb659fds" shape:"qualifier"`
	// PermissionsBoundary is the name of a managed policy, in every account, that bounds all roles.
	PermissionsBoundary string `yaml:"permissionsBoundary,omitempty" shape:"policy"`
	// Tags are set on every resource beside cellwall's own.
	Tags map[string]string `yaml:"tags,omitempty" keys:"tagKey" shape:"tagValue"`
}

// Audit is what the audit goes by.
type Audit struct {
	// Waivers is a file beside fleet.yaml: the findings that are accepted, each with a reason and until a day, as
	// docs/audit.md describes it.
	Waivers string `yaml:"waivers,omitempty" shape:"file"`
}

// Cell is one complete copy of the stack.
type Cell struct {
	Name    string   `yaml:"name" shape:"name"`                                                 // [a-z][a-z0-9-]{0,15}, unique in the fleet
	Account string   `yaml:"account" shape:"account"`                                           // 12 digits, in quotes
	Region  string   `yaml:"region" shape:"region"`                                             // every zone of the cell lies in it
	Zones   []string `yaml:"zones" jsonschema:"minItems=1,maxItems=6" shape:"zone"`             // letters, append-only: [a, b, c]; two at least with shard.http
	Shards  Shards   `yaml:"shards"`                                                            // a count, which gives s01, s02 and on, or a list of {id, zone, weight}
	Tenants string   `yaml:"tenants,omitempty" jsonschema:"enum=any,enum=internal,default=any"` // any (default), or internal: the canary's
	CIDR    string   `yaml:"cidr,omitempty"`                                                    // of the cell's own VPC, private, /16 to /20; default 10.20.0.0/16
	VPC     *VPC     `yaml:"vpc,omitempty"`                                                     // an imported VPC instead of an own one
	Budget  *Budget  `yaml:"budget,omitempty"`                                                  // replaces single lines of the fleet's budget
	// Egress is the way out of the cell's own VPC: endpoints, the default, to the services of AWS that it needs and to
	// nothing else; nat, a NAT gateway in each zone beside the endpoints that cost nothing.
	Egress Egress `yaml:"egress,omitempty" jsonschema:"enum=endpoints,enum=nat"`
	// Generation stands in the names of what keeps data, from 1 on. A cell whose stacks were destroyed leaves its data;
	// with a higher generation it is stamped anew beside that.
	Generation int `yaml:"generation,omitempty" jsonschema:"minimum=0,maximum=999"`
	// Quarantine are shards of the cell to which a tenant is pinned whose requests take down one shard after
	// another, and on which nobody else is placed; none, the default, leaves it where it is.
	Quarantine []string `yaml:"quarantine,omitempty" jsonschema:"minItems=1,maxItems=1000" shape:"name"`
}

// Egress is the way out of a cell's own VPC.
type Egress string

const (
	EgressEndpoints Egress = "endpoints" // VPC endpoints alone
	EgressNAT       Egress = "nat"       // a NAT gateway in each zone
)

// VPC is an existing network that a cell lives in.
type VPC struct {
	ID      string            `yaml:"id" shape:"vpc"`                     // vpc-…
	Subnets map[string]string `yaml:"subnets" shape:"subnet" keys:"zone"` // zone letter to private subnet id, one for each zone of the cell
}

// Shards are the shards of a cell, in the order of the file. In YAML either a count, which gives
// s01, s02, … with the zones dealt round, or a list of {id, zone, weight}. Ids are never reused.
type Shards []ShardSpec

// ShardSpec is one shard.
type ShardSpec struct {
	ID     string `yaml:"id" shape:"name"`                                                // [a-z][a-z0-9-]{0,15}, unique in the cell
	Zone   string `yaml:"zone,omitempty" shape:"zone"`                                    // one of the cell's letters; by default they are dealt round
	Weight int    `yaml:"weight,omitempty" jsonschema:"minimum=1,maximum=1000,default=1"` // 1 to 1,000; default 1
}

// Rollout says in which waves a change travels.
type Rollout struct {
	Waves  []Wave `yaml:"waves,omitempty" jsonschema:"minItems=1,maxItems=1000"` // default: one wave for each cell, in order
	HaltOn HaltOn `yaml:"haltOn,omitempty"`                                      // what stops a rollout
	// Probe sends test tenants' requests to cells while they bake, so that a quiet one is not a blind one; absent means off.
	Probe *Probe `yaml:"probe,omitempty"`
}

// Probe is what test tenants ask for while a cell bakes. Who they are, and where a cell is asked, is no part of the fleet: it
// stands in a file that rollout start is given.
type Probe struct {
	Path  string        `yaml:"path" shape:"path"`                       // that is asked for by GET; well means a status of 200 to 299
	Every time.Duration `yaml:"every,omitempty" jsonschema:"default=1s"` // between two requests to a cell, 1s to 1m; default 1s
}

// Wave is the cells deployed together: a list, or the cumulative share of tenants reached after it
// (of shards until a directory exists), in whole cells and at least one a wave.
type Wave struct {
	Cells   []string      `yaml:"cells,omitempty" jsonschema:"minItems=1,maxItems=1000"` // the wave's cells; not together with percent
	Percent *int          `yaml:"percent,omitempty" jsonschema:"minimum=1,maximum=100"`  // share of all tenants, or of all shards without a directory, reached after the wave, 1 to 100; rises, and ends at 100
	Bake    time.Duration `yaml:"bake,omitempty"`                                        // watched wait after each stage of the wave, the shards of one zone; default 0s
}

// HaltOn says what stops a rollout.
type HaltOn struct {
	Alarms      string `yaml:"alarms,omitempty" jsonschema:"enum=any,enum=none,default=any"` // any (default) or none
	MinRequests int    `yaml:"minRequests,omitempty" jsonschema:"minimum=0,default=100"`     // before a bake may end, 0 for none; default 100
}
