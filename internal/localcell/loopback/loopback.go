// Package loopback protects what listens on this machine's loopback address, which every user of the
// machine and every web page in a browser can reach: callers show a secret that only files of mode 0600
// hold, and a request that a browser was talked into is refused.
package loopback

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// NewSecret returns 32 random bytes in URL-safe base64.
func NewSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Require lets a request through that shows one of the secrets, as bearer token or as the password of
// basic authentication, which is how a URL with a user name and password sends it. All others get 401.
func Require(next http.Handler, secrets ...string) http.Handler {
	handlers := make(map[string]http.Handler, len(secrets))
	for _, s := range secrets {
		handlers[s] = next
	}
	return By(handlers)
}

// By is Require with a handler for each secret.
func By(handlers map[string]http.Handler) http.Handler {
	type door struct {
		sum  [sha256.Size]byte
		next http.Handler
	}
	var doors []door
	for secret, next := range handlers {
		doors = append(doors, door{sha256.Sum256([]byte(secret)), next})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			_, shown, ok = r.BasicAuth()
		}
		sum := sha256.Sum256([]byte(shown))
		var next http.Handler
		for _, d := range doors {
			if subtle.ConstantTimeCompare(sum[:], d.sum[:]) == 1 {
				next = d.next
			}
		}
		if !ok || next == nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			Fail(w, http.StatusUnauthorized, errors.New("this address is for the cell's own processes and its operator"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Only refuses requests whose Host is a name other than localhost (which is how a page that rebinds its
// own DNS name to 127.0.0.1 arrives) and requests that a browser sent for a page (they carry Origin or
// Sec-Fetch-Site).
func Only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			Fail(w, http.StatusForbidden, errors.New("only programs on this machine are served here, by its loopback address"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// Listen listens on a free port of 127.0.0.1.
func Listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// readLimit is the time for a whole request to come in, its body included. A client that sends a byte now
// and then would otherwise hold its connection, and what serves it, for ever.
const readLimit = 30 * time.Second

// Serve serves h on l until ctx ends; then it takes no more requests and gives those on their way one
// second. The error is nil after that. A request that has not come in whole after 30 seconds is cut off.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, l, h, readLimit)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, limit time.Duration) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: min(10*time.Second, limit),
		ReadTimeout:       limit,
		IdleTimeout:       2 * time.Minute,
	}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(l)
	if !unhook() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}

// Answer writes value as JSON.
func Answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Past the header an error can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(value)
}

// Fail writes err as JSON.
func Fail(w http.ResponseWriter, status int, err error) {
	Answer(w, status, fault{err.Error()})
}

type fault struct {
	Error string `json:"error"`
}
