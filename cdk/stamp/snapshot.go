package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// snapshots is where a keeper writes the snapshot that a cell's routers, or a front door, serve from while what they
// ask is down, and the two keys by which it is sealed: the keeper alone can sign, and whoever only writes to the
// bucket makes nothing that a router would take.
type snapshots struct {
	place    snapshotPlace
	key, mac awskms.Key
}

// snapshotPlace says whose snapshots they are, and what their parts are called.
type snapshotPlace struct {
	service, cell    string // as the encryption context has them
	about            string
	region           string
	bucket, key, mac string // names
}

// snapshotPlace is the cell's.
func (p *plan) snapshotPlace() snapshotPlace {
	return snapshotPlace{
		service: p.fleet.Service, cell: p.cell.Name, about: "cell " + p.cell.Name + " of " + p.fleet.Service, region: p.cell.Region,
		bucket: p.names.SnapshotBucket(p.cell.Account, p.cell.Region), key: p.names.SnapshotKey(), mac: p.names.SnapshotMAC(),
	}
}

// oldSnapshots is for how many days an overwritten snapshot stays, to see what routers went by.
const oldSnapshots = 7

func newSnapshots(st awscdk.Stack, place snapshotPlace) snapshots {
	key := awskms.NewKey(st, str("SnapshotKey"), &awskms.KeyProps{
		Alias: str(place.key), Description: str("Encrypts the snapshot of " + place.about),
		EnableKeyRotation: yes, PendingWindow: days(7), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	mac := awskms.NewKey(st, str("SnapshotMAC"), &awskms.KeyProps{
		Alias: str(place.mac), Description: str("Signs the snapshot of " + place.about),
		KeySpec: awskms.KeySpec_HMAC_256, KeyUsage: awskms.KeyUsage_GENERATE_VERIFY_MAC,
		PendingWindow: days(7), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	newBucket(st, "Snapshots", place.bucket, nil, &awss3.LifecycleRule{
		Id: str("old-snapshots"), NoncurrentVersionExpiration: days(oldSnapshots)})
	return snapshots{place, key, mac}
}

// What a reader and the writer do with the two keys.
var (
	opens, verifies = []string{"kms:Decrypt"}, []string{"kms:VerifyMac"}
	seals, signs    = []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{"kms:GenerateMac"}
)

// readBy lets a role open the snapshot.
func (s snapshots) readBy(role awsiam.Role) {
	s.place.object(role, "s3:GetObject")
	role.AddToPolicy(s.place.only(allow(opens, *s.key.KeyArn())))
	role.AddToPolicy(allow(verifies, *s.mac.KeyArn()))
}

// writtenBy lets a role write it, and read the last one.
func (s snapshots) writtenBy(role awsiam.Role) {
	s.place.object(role, "s3:GetObject", "s3:PutObject")
	role.AddToPolicy(s.place.only(allow(seals, *s.key.KeyArn())))
	role.AddToPolicy(allow(signs, *s.mac.KeyArn()))
}

// openedBy lets a role of a stack that is deployed before these keys are, and cannot name them, use them as a reader
// does: by their aliases. The keys' policies leave it to the account's IAM who uses them, and name no role, since one
// that was made anew would be another (see newShardKey).
func (place snapshotPlace) openedBy(role awsiam.Role, account string) {
	place.object(role, "s3:GetObject")
	behind := func(actions []string, alias string) awsiam.PolicyStatement {
		statement := allow(actions, arn("kms", place.region, account, "key/*"))
		statement.AddCondition(str("ForAnyValue:StringEquals"), map[string]any{"kms:ResourceAliases": alias})
		return statement
	}
	role.AddToPolicy(place.only(behind(opens, place.key)))
	role.AddToPolicy(behind(verifies, place.mac))
}

// object lets a role do this to the snapshot. Listing tells it from one that is not there, which S3 otherwise calls
// forbidden.
func (place snapshotPlace) object(role awsiam.Role, actions ...string) {
	// By its derived name: the bucket is created last, after the functions.
	bucket := "arn:" + partition(place.region) + ":s3:::" + place.bucket
	role.AddToPolicy(allow(actions, bucket+"/"+names.SnapshotObject))
	role.AddToPolicy(allow([]string{"s3:ListBucket"}, bucket))
}

// only narrows a statement to data keys of these snapshots, as internal/adapter/kmsseal states it: one of another
// cell, or made for something else, opens nothing.
func (place snapshotPlace) only(s awsiam.PolicyStatement) awsiam.PolicyStatement {
	s.AddCondition(str("StringEquals"), map[string]any{
		"kms:EncryptionContext:service": place.service, "kms:EncryptionContext:cell": place.cell, "kms:EncryptionContext:purpose": names.SnapshotPurpose})
	return s
}
