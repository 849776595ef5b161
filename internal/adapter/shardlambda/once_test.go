package shardlambda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/routing"
)

// frozen is a connection as an environment finds it that stood still: the other side closed it, of which nobody has
// heard yet, and whatever is written next fails.
type frozen struct {
	net.Conn
	closed *atomic.Bool // by the other side
	takes  int          // bytes that it still seems to take
	over   chan struct{}
}

func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if err != nil && f.closed.Load() {
		<-f.over // until the router writes
	}
	return n, err
}

func (f *frozen) Write(p []byte) (int, error) {
	if !f.closed.Load() {
		return f.Conn.Write(p)
	}
	defer close(f.over)
	return min(f.takes, len(p)), syscall.EPIPE
}

// TestAConnectionThatWasClosedMeanwhile: when an API closes its idle connections while an environment is frozen, an
// invocation that the environment could not begin to send goes by another connection, whatever its size. One that it
// began to send may have run.
func TestAConnectionThatWasClosedMeanwhile(t *testing.T) {
	for _, takes := range []int{0, 1} {
		for _, size := range []int{1, 100_000} {
			for tries := 1; !invokedByAClosedConnection(t, takes, size); tries++ {
				if tries == 20 {
					t.Fatal("no connection is ever used twice")
				}
			}
		}
	}
}

// invokedByAClosedConnection invokes once with a body of that size by a connection that was closed meanwhile and seems
// to take so many bytes; false says that net/http picked another connection at once.
func invokedByAClosedConnection(t *testing.T, takes, size int) bool {
	var invocations, dialled atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		invocations.Add(1)
		fmt.Fprint(w, `{"statusCode":201,"body":"made"}`)
	}))
	defer server.Close()
	var closed atomic.Bool
	c := lambda.New(lambda.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
			tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil || dialled.Add(1) > 1 {
					return conn, err
				}
				return &frozen{Conn: conn, closed: &closed, takes: takes, over: make(chan struct{})}, nil
			}
		}),
	}, Once)
	tr := New(c, func(string) string { return "f" })
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = reused || info.Reused }})
	send := func() (*routing.Response, error) {
		return tr.Send(ctx, call, &routing.Request{Method: "POST", Path: "/", Header: http.Header{}, Body: make([]byte, size)})
	}
	if _, err := send(); err != nil {
		t.Fatal(err)
	}
	closed.Store(true)
	server.CloseClientConnections()
	resp, err := send()
	switch {
	case !reused:
		return false
	case takes == 0 && (err != nil || resp.Status != 201 || invocations.Load() != 2 || dialled.Load() != 2):
		t.Errorf("%d bytes of which none was sent: %+v, %v, after %d invocations by %d connections", size, resp, err, invocations.Load(), dialled.Load())
	case takes > 0 && (err == nil || errors.Is(err, routing.ErrNotSent) || invocations.Load() != 1):
		t.Errorf("%d bytes of which one may have been sent: %v after %d invocations; want that nobody knows", size, err, invocations.Load())
	}
	return true
}

// TestIdleConnections are not trusted for long, by whatever HTTP client the SDK makes.
func TestIdleConnections(t *testing.T) {
	for name, given := range map[string]lambda.HTTPClient{"default": nil, "of the configuration": awshttp.NewBuildableClient()} {
		c := lambda.New(lambda.Options{Region: "eu-west-1", HTTPClient: given}, Once)
		if got := c.Options().HTTPClient.(*awshttp.BuildableClient).GetTransport().IdleConnTimeout; got != idleTimeout {
			t.Errorf("%s: a connection is idle for up to %v", name, got)
		}
	}
}
