package stamp

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// newTable is a table for state: on demand, recoverable to any second, protected from deletion and
// kept when the stack goes. DynamoDB deletes the records of idempotency keys that nobody can repeat any more.
// Its stream tells what changed, before and after: whoever copies a tenant elsewhere follows it. bounds is nil for a
// table that may use all that the account's tables may do together, and key for a key of AWS.
func newTable(st awscdk.Stack, id, name string, bounds *fleet.Table, key awskms.Key) awsdynamodb.Table {
	props := &awsdynamodb.TableProps{
		TableName:                        str(name),
		PartitionKey:                     stringKey(names.PartitionKey),
		SortKey:                          stringKey(names.SortKey),
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: pointInTime(),
		Stream:                           awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES,
		TimeToLiveAttribute:              str(names.Expires),
		DeletionProtection:               yes,
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
	}
	if key != nil {
		props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, key
	}
	if bounds != nil {
		props.MaxReadRequestUnits, props.MaxWriteRequestUnits = num(bounds.MaxReads), num(bounds.MaxWrites)
	}
	return awsdynamodb.NewTable(st, str(id), props)
}

// newBucket is a bucket for state: private, over TLS only, versioned, kept when the stack goes. key is nil for a key
// of AWS.
func newBucket(st awscdk.Stack, id, name string, key awskms.Key, more ...*awss3.LifecycleRule) {
	rules := append([]*awss3.LifecycleRule{{Id: str("abandoned-uploads"), AbortIncompleteMultipartUploadAfter: days(7)}}, more...)
	props := &awss3.BucketProps{
		BucketName:        str(name),
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		EnforceSSL:        yes,
		MinimumTLSVersion: jsii.Number(1.2),
		Versioned:         yes,
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
		LifecycleRules:    &rules,
	}
	if key != nil { // with a key of the bucket's own below it: else each object is a request to KMS, and its cost
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, key, yes
	}
	keepPolicy(awss3.NewBucket(st, str(id), props))
}

// keepPolicy has the policy of a queue or a bucket, which the CDK makes beside it, stay as long as that does: what is
// kept when the stack goes is over TLS only from then on, too.
func keepPolicy(of constructs.IConstruct) {
	policy := of.Node().FindChild(str("Policy")).Node().DefaultChild().(awscdk.CfnResource)
	policy.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE, nil)
}

// createStateLast lets a stack's bucket wait for everything else in the stack, its schedule for the bucket, and its
// table for these, too. A first deployment that fails is rolled back, and DynamoDB refuses to delete a protected
// table: it would be left behind, and its name would fail every deployment that follows. As the last
// resource it is not there yet when another fails. Nothing refers to a table, since names are derived;
// to a bucket refers its policy, which waits for the bucket.
func createStateLast(st awscdk.Stack) {
	var others, buckets, policies, schedules, tables []awscdk.CfnResource
	for _, c := range *st.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		r, ok := c.(awscdk.CfnResource)
		if !ok {
			continue
		}
		switch *r.CfnResourceType() {
		case "AWS::S3::Bucket":
			buckets = append(buckets, r)
		case "AWS::S3::BucketPolicy":
			policies = append(policies, r)
		case "AWS::Events::Rule":
			schedules = append(schedules, r)
		case "AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable":
			tables = append(tables, r)
		default:
			others = append(others, r)
		}
	}
	wait := func(state []awscdk.CfnResource, first ...[]awscdk.CfnResource) {
		for _, s := range state {
			for _, r := range slices.Concat(first...) {
				s.AddResourceDependency(r, str("state is created last"))
			}
		}
	}
	wait(buckets, others)
	wait(schedules, others, buckets, policies)
	wait(tables, others, buckets, policies, schedules)
}

func stringKey(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: str(name), Type: awsdynamodb.AttributeType_STRING}
}

func pointInTime() *awsdynamodb.PointInTimeRecoverySpecification {
	return &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: yes}
}

// newStateRole is a role for code of one shard. It reaches the state that the fleet gives the shard,
// item by item and object by object, and nothing else until the caller adds to it.
func newStateRole(st awscdk.Stack, id, service, about string, p *plan, s shardPlan, key awskms.Key) awsiam.Role {
	role := awsiam.NewRole(st, str(id), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(str(service), nil),
		Description: str(about),
	})
	var tables []string
	if p.fleet.Shard.State.Mode == fleet.StateCell {
		tables = append(tables, p.arn("dynamodb", "table/"+p.names.Store()))
	}
	if p.fleet.Shard.Table != nil {
		tables = append(tables, p.arn("dynamodb", "table/"+s.names.Table()))
	}
	if len(tables) > 0 { // no scans: code that serves a tenant knows its keys
		role.AddToPolicy(allow([]string{
			"dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem",
			"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"}, tables...))
	}
	if p.fleet.Shard.Queue != nil { // jobs for the router to place, and those that no shard takes
		role.AddToPolicy(allow([]string{"sqs:GetQueueUrl", "sqs:SendMessage"},
			p.arn("sqs", p.names.Dispatch()), p.arn("sqs", s.names.DeadLetters())))
	}
	if p.fleet.Shard.Bucket != nil {
		bucket := "arn:" + partition(p.cell.Region) + ":s3:::" + s.names.Bucket(p.cell.Account, p.cell.Region)
		role.AddToPolicy(allow([]string{"s3:ListBucket"}, bucket))
		role.AddToPolicy(allow([]string{"s3:DeleteObject", "s3:GetObject", "s3:PutObject"}, bucket+"/*"))
	}
	useKey(role, p, key)
	return role
}
