// Package snaps3 keeps a cell's sealed snapshot as one object in an S3 bucket.
//
// A write asks that the object is still the one that was read (If-Match) or that there is none
// (If-None-Match), so that of two keepers at once one alone writes, and a slow one never puts an earlier
// snapshot over a later one. The bucket is versioned for those who want to look back; nothing here reads an
// earlier version.
//
// Permissions: s3:GetObject on the object; s3:PutObject on it for the keeper; s3:ListBucket on the bucket,
// without which S3 answers for an object that is not there as for one that is forbidden.
package snaps3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/snapshot"
)

// Client is the part of *s3.Client that is needed.
type Client interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// How a router reads: a bucket that does not answer is found out within its start.
const (
	connectTimeout = time.Second
	answerTimeout  = 2 * time.Second // until the answer begins; a large one may take longer
	tries          = 2
)

// ForKeepers makes a client fit for the keeper.
func ForKeepers(o *s3.Options) {
	o.UsePathStyle = o.BaseEndpoint != nil // an endpoint of one's own has no name for each bucket
}

// ForRouters makes a client fit for routers, which do without the snapshot rather than wait for it.
func ForRouters(o *s3.Options) {
	ForKeepers(o)
	o.HTTPClient = awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout, t.TLSHandshakeTimeout = answerTimeout, answerTimeout
		})
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts = tries })
}

// Object is one object of a bucket. Its tag is S3's ETag.
type Object struct {
	client      Client
	bucket, key string
}

var _ snapshot.Reader = (*Object)(nil)

// New returns the object of that key.
func New(client Client, bucket, key string) *Object { return &Object{client, bucket, key} }

func (o *Object) String() string { return fmt.Sprintf("s3://%s/%s", o.bucket, o.key) }

// Get implements snapshot.Reader.
func (o *Object) Get(ctx context.Context, unless string) ([]byte, string, error) {
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: &o.key}
	if unless != "" {
		in.IfNoneMatch = &unless
	}
	out, err := o.client.GetObject(ctx, in)
	if err != nil {
		return nil, "", fmt.Errorf("read %v: %w", o, classify(err))
	}
	defer out.Body.Close()
	size := aws.ToInt64(out.ContentLength)
	if size < 0 || size > snapshot.MaxBytes {
		return nil, "", fmt.Errorf("read %v: %w: it has %d bytes, and %d are the most", o, snapshot.ErrMalformed, size, snapshot.MaxBytes)
	}
	// One allocation of the right size: growing a large one by doubling takes twice the memory.
	data := make([]byte, size)
	if _, err := io.ReadFull(out.Body, data); err != nil {
		return nil, "", fmt.Errorf("read %v: it ends before its %d bytes: %w", o, size, err)
	}
	if n, err := out.Body.Read(make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, io.EOF) { // checks S3's checksum, too
		return nil, "", fmt.Errorf("read %v: want an end after %d bytes: %w", o, size, errors.Join(err, snapshot.ErrMalformed))
	}
	return data, aws.ToString(out.ETag), nil
}

// Put writes the object over the one with that tag; over none when the tag is "". snapshot.ErrChanged when
// another stands there, or when an earlier try of this very write came through and its answer was lost.
func (o *Object) Put(ctx context.Context, data []byte, tag string) error {
	in := &s3.PutObjectInput{
		Bucket: &o.bucket, Key: &o.key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String("application/octet-stream"),
	}
	if tag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &tag
	}
	_, err := o.client.PutObject(ctx, in)
	if err != nil {
		err = classify(err)
		if tag != "" && errors.Is(err, snapshot.ErrNone) { // it was deleted meanwhile
			err = fmt.Errorf("%w: %w", snapshot.ErrChanged, err)
		}
		return fmt.Errorf("write %v: %w", o, err)
	}
	return nil
}

// classify gives S3's answers the snapshot's names.
func classify(err error) error {
	var answer *awshttp.ResponseError
	status := 0
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	var code string
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var none *types.NoSuchKey
	switch {
	case errors.As(err, &none), code == "NoSuchKey":
		return fmt.Errorf("%w: %w", snapshot.ErrNone, err)
	case status == http.StatusNotModified:
		return fmt.Errorf("%w: %w", snapshot.ErrSame, err)
	case status == http.StatusPreconditionFailed, code == "ConditionalRequestConflict":
		return fmt.Errorf("%w: %w", snapshot.ErrChanged, err)
	case status == http.StatusForbidden:
		return fmt.Errorf("%w (without s3:ListBucket, this is also the answer for an object that is not there)", err)
	}
	return err
}
