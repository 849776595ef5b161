package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// snapshots is where the cell's keeper writes the snapshot that its routers serve from while what they ask is
// down, and the two keys by which it is sealed: the keeper alone can sign, and whoever only writes to the bucket
// makes nothing that a router would take.
type snapshots struct {
	p        *plan
	key, mac awskms.Key
}

// oldSnapshots is for how many days an overwritten snapshot stays, to see what routers went by.
const oldSnapshots = 7

func newSnapshots(core awscdk.Stack, p *plan) snapshots {
	key := awskms.NewKey(core, str("SnapshotKey"), &awskms.KeyProps{
		Alias: str(p.names.SnapshotKey()), Description: str("Encrypts the snapshot of cell " + p.cell.Name + " of " + p.fleet.Service),
		EnableKeyRotation: yes, PendingWindow: days(7), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	mac := awskms.NewKey(core, str("SnapshotMAC"), &awskms.KeyProps{
		Alias: str(p.names.SnapshotMAC()), Description: str("Signs the snapshot of cell " + p.cell.Name + " of " + p.fleet.Service),
		KeySpec: awskms.KeySpec_HMAC_256, KeyUsage: awskms.KeyUsage_GENERATE_VERIFY_MAC,
		PendingWindow: days(7), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	newBucket(core, "Snapshots", p.names.SnapshotBucket(p.cell.Account, p.cell.Region), nil, &awss3.LifecycleRule{
		Id: str("old-snapshots"), NoncurrentVersionExpiration: days(oldSnapshots)})
	return snapshots{p, key, mac}
}

// readBy lets a role open the snapshot. Listing tells it from one that is not there, which S3 otherwise calls
// forbidden.
func (s snapshots) readBy(role awsiam.Role) {
	s.reach(role, []string{"s3:GetObject"}, []string{"kms:Decrypt"}, []string{"kms:VerifyMac"})
}

// writtenBy lets a role write it, and read the last one.
func (s snapshots) writtenBy(role awsiam.Role) {
	s.reach(role, []string{"s3:GetObject", "s3:PutObject"}, []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{"kms:GenerateMac"})
}

func (s snapshots) reach(role awsiam.Role, object, key, mac []string) {
	// By its derived name: the bucket is created last, after the functions.
	bucket := "arn:" + partition(s.p.cell.Region) + ":s3:::" + s.p.names.SnapshotBucket(s.p.cell.Account, s.p.cell.Region)
	role.AddToPolicy(allow(object, bucket+"/"+names.SnapshotObject))
	role.AddToPolicy(allow([]string{"s3:ListBucket"}, bucket))
	// As internal/adapter/kmsseal states it: a data key of another cell, or made for something else, opens nothing.
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: strs(key...), Resources: strs(*s.key.KeyArn()),
		Conditions: &map[string]any{"StringEquals": map[string]any{
			"kms:EncryptionContext:service": s.p.fleet.Service, "kms:EncryptionContext:cell": s.p.cell.Name, "kms:EncryptionContext:purpose": names.SnapshotPurpose}},
	}))
	role.AddToPolicy(allow(mac, *s.mac.KeyArn()))
}
