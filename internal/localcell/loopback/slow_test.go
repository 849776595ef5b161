package loopback

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestASlowRequestIsCutOff sends a header, half a body, and then nothing.
func TestASlowRequestIsCutOff(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		}), 100*time.Millisecond)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body ended with %v, want %v", err, os.ErrDeadlineExceeded)
		}
	case <-time.After(30 * time.Second):
		t.Error("the handler still waits for the body")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
