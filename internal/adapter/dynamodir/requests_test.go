package dynamodir

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/directory"
)

// TestATryThatHangsLeavesTimeForAnother: within the second that a look-up may take.
func TestATryThatHangsLeavesTimeForAnother(t *testing.T) {
	release := make(chan struct{})
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			<-release
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		io.WriteString(w, `{}`)
	}))
	defer server.Close()
	defer close(release)
	client := dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, ForRequests)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // for a slow machine; the first try alone would take all of it
	defer cancel()
	d, err := directory.Open(ctx, New(client, "orders-directory"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, "acme"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("%d tries: %v, want the second one's answer", tries.Load(), err)
	}
}
