// Package snapshots runs what a cell's snapshot needs of AWS against the API emulator, through the SDK.
package snapshots

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/test/awsemu"
)

var emulator *awsemu.Emulator

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	emulator, err = awsemu.New(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer emulator.Close()
	return m.Run()
}

const account, region = "111111111111", "eu-west-1"

var number atomic.Int32 // of things that are made, so that each test has its own

// newBucket makes an empty, versioned bucket.
func newBucket(t *testing.T) (client *s3.Client, name string) {
	t.Helper()
	client = s3.NewFromConfig(emulator.Config(t, account, region), snaps3.ForKeepers)
	name = fmt.Sprintf("snapshots-%d", number.Add(1))
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name,
		CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: region}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &name,
		VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	return client, name
}

func kmsClient(t *testing.T) *kms.Client {
	t.Helper()
	return kms.NewFromConfig(emulator.Config(t, account, region), kmsseal.Brief)
}

// newKeys makes the two keys of a cell, under aliases.
func newKeys(t *testing.T, cell string) kmsseal.Config {
	t.Helper()
	n := number.Add(1)
	c := kmsseal.Config{Key: fmt.Sprintf("alias/key-%d", n), MACKey: fmt.Sprintf("alias/mac-%d", n), Service: "orders", Cell: cell}
	makeKey(t, c.Key, &kms.CreateKeyInput{})
	makeKey(t, c.MACKey, &kms.CreateKeyInput{KeySpec: kmstypes.KeySpecHmac256, KeyUsage: kmstypes.KeyUsageTypeGenerateVerifyMac})
	return c
}

func makeKey(t *testing.T, alias string, in *kms.CreateKeyInput) {
	t.Helper()
	out, err := kmsClient(t).CreateKey(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kmsClient(t).CreateAlias(t.Context(), &kms.CreateAliasInput{AliasName: &alias, TargetKeyId: aws.String(*out.KeyMetadata.KeyId)}); err != nil {
		t.Fatal(err)
	}
}
