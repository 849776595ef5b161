package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Actions on a key of what reads and writes under it. DynamoDB acts in the caller's name and wants all of them of
// who writes (AWS KMS developer guide, How Amazon DynamoDB uses AWS KMS); SQS wants the first two of who sends, and
// the first of who receives; S3 the first two.
var (
	keySends = []string{"kms:Decrypt", "kms:GenerateDataKey"}
	keyUses  = append(keySends[:len(keySends):len(keySends)],
		"kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo")
)

// newShardKey is the key under which the shard's table, bucket, queues and logs are encrypted; nil where keys of AWS do
// that. The key stays when the stack goes, as what is encrypted under it does. Its alias goes: what is left behind
// names the key itself, and a fleet that comes back to keys of its own needs the name.
//
// The key's policy leaves it to the account's IAM who uses it, as the CDK writes it, and there three alone may: the
// shard's own roles, and from outside of its stack the cell's router and keeper (useShardKeys). It names none of them: a
// role in a key's policy becomes the id of the role that bore the name then, and lets nobody in once the core stack,
// which has it, was made anew. CloudWatch Logs is let in by it, for the logs of this shard.
func newShardKey(st awscdk.Stack, p *plan, s shardPlan) awskms.Key {
	if p.fleet.Shard.Encryption != fleet.EncryptionOwn {
		return nil
	}
	key := awskms.NewKey(st, str("Key"), &awskms.KeyProps{
		Description:       str("Encrypts what shard " + s.id + " of cell " + p.cell.Name + " of " + p.fleet.Service + " keeps"),
		EnableKeyRotation: yes,
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
	})
	key.AddAlias(str(s.names.Key()))
	var logs []string
	if p.fleet.Shard.Lambda != nil {
		logs = append(logs, p.arn("logs", "log-group:"+s.names.LogGroup("worker")))
	}
	if p.service != nil {
		logs = append(logs, p.arn("logs", "log-group:"+s.names.LogGroup(serviceLog)))
	}
	if len(logs) > 0 {
		key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(str(endpoint("logs", p.cell.Region)), nil)},
			Actions:    strs(keyUses...), Resources: strs("*"), // of a key's policy, the key
			Conditions: &map[string]any{"ArnEquals": map[string]any{"kms:EncryptionContext:aws:logs:arn": logs}},
		}), nil)
	}
	return key
}

// useKey lets a role of the shard's own use its key, through the services that keep something under it.
func useKey(role awsiam.Role, p *plan, key awskms.Key) {
	if key == nil {
		return
	}
	parts := p.fleet.Shard
	var through []string
	for _, keeps := range []struct {
		service string
		on      bool
	}{{"dynamodb", parts.Table != nil}, {"s3", parts.Bucket != nil}, {"sqs", parts.Queue != nil}} {
		if keeps.on {
			through = append(through, endpoint(keeps.service, p.cell.Region))
		}
	}
	if len(through) == 0 {
		return
	}
	statement := allow(keyUses, *key.KeyArn())
	statement.AddCondition(str("StringEquals"), map[string]any{"kms:ViaService": through})
	role.AddToPolicy(statement)
}

// useShardKeys lets a role of the core stack use the keys of the cell's shards, present and to come, through one
// service. Keys have no names of their own, so that it is their aliases that tell them from others (AWS KMS developer
// guide, "Use aliases to control access to KMS keys").
func useShardKeys(p *plan, actions []string, service string) awsiam.PolicyStatement {
	statement := allow(actions, p.arn("kms", "key/*"))
	statement.AddCondition(str("StringEquals"), map[string]any{"kms:ViaService": endpoint(service, p.cell.Region)})
	statement.AddCondition(str("ForAnyValue:StringLike"), map[string]any{"kms:ResourceAliases": keyPattern(p.names)})
	statement.AddCondition(str("ForAllValues:StringNotLike"), map[string]any{"kms:ResourceAliases": p.otherCells(names.Shard.Key)})
	return statement
}

// endpoint is a service's name in a region, as KMS tells who asks for somebody, and as services that differ by region
// are principals.
func endpoint(service, region string) string {
	name := service + "." + region + ".amazonaws.com"
	if partition(region) == "aws-cn" {
		name += ".cn"
	}
	return name
}
