package snapshots

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/snapshot"
)

var _ keeper.Store = (*snaps3.Object)(nil)

func TestObject(t *testing.T) {
	client, bucket := newBucket(t)
	o := snaps3.New(client, bucket, "snapshot")
	if _, _, err := o.Get(t.Context(), ""); !errors.Is(err, snapshot.ErrNone) {
		t.Errorf("no object: %v", err)
	}
	if err := o.Put(t.Context(), []byte("one"), `"d41d8cd98f00b204e9800998ecf8427e"`); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("over one that is not there: %v", err)
	}
	if err := o.Put(t.Context(), []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	data, tag, err := o.Get(t.Context(), "")
	if err != nil || string(data) != "one" || tag == "" {
		t.Fatalf("%q %q %v", data, tag, err)
	}
	if _, _, err := o.Get(t.Context(), tag); !errors.Is(err, snapshot.ErrSame) {
		t.Errorf("the same: %v", err)
	}
	if err := o.Put(t.Context(), []byte("two"), ""); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("as if none were there: %v", err)
	}
	if err := o.Put(t.Context(), []byte("two"), tag); err != nil {
		t.Fatal(err)
	}
	if err := o.Put(t.Context(), []byte("three"), tag); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("over one that is gone: %v", err)
	}
	if data, second, err := o.Get(t.Context(), tag); err != nil || string(data) != "two" || second == tag {
		t.Errorf("%q %q %v", data, second, err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	_, tag, err = o.Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Put(t.Context(), large, tag); err != nil {
		t.Fatal(err)
	}
	if data, _, err := o.Get(t.Context(), tag); err != nil || !bytes.Equal(data, large) {
		t.Errorf("%d bytes of %d, %v", len(data), len(large), err)
	}
	// Who looks back finds what was written over.
	versions, err := client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &bucket})
	if err != nil || len(versions.Versions) != 3 {
		t.Errorf("%d versions, %v", len(versions.Versions), err)
	}
}

// A bucket or a server that is not there is no object that is not there.
func TestBucketThatIsNotThere(t *testing.T) {
	client, _ := newBucket(t)
	if _, _, err := snaps3.New(client, "no-such-bucket", "snapshot").Get(t.Context(), ""); err == nil || errors.Is(err, snapshot.ErrNone) || !strings.Contains(err.Error(), "s3://no-such-bucket/snapshot") {
		t.Errorf("no bucket: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + l.Addr().String()
	l.Close()
	down := s3.NewFromConfig(emulator.Config(t, account, region), func(o *s3.Options) { o.BaseEndpoint = aws.String(away) }, snaps3.ForRouters)
	if _, _, err := snaps3.New(down, "bucket", "snapshot").Get(t.Context(), ""); err == nil || errors.Is(err, snapshot.ErrNone) || snapshot.Refused(err) {
		t.Errorf("no server: %v", err)
	}
}
