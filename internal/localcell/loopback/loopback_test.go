package loopback

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	Answer(w, http.StatusOK, map[string]string{"method": r.Method, "body": string(body)})
})

func status(h http.Handler, change func(*http.Request)) int {
	r := httptest.NewRequest("GET", "http://127.0.0.1:1234/", nil)
	change(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestRequire(t *testing.T) {
	h := Require(ok, "one", "two")
	tests := map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"bearer":          {func(r *http.Request) { r.Header.Set("Authorization", "Bearer one") }, 200},
		"second secret":   {func(r *http.Request) { r.Header.Set("Authorization", "Bearer two") }, 200},
		"basic":           {func(r *http.Request) { r.SetBasicAuth("cell", "two") }, 200},
		"nothing":         {func(*http.Request) {}, 401},
		"empty bearer":    {func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		"wrong":           {func(r *http.Request) { r.Header.Set("Authorization", "Bearer three") }, 401},
		"prefix":          {func(r *http.Request) { r.Header.Set("Authorization", "Bearer on") }, 401},
		"user not secret": {func(r *http.Request) { r.SetBasicAuth("one", "") }, 401},
		"in the query":    {func(r *http.Request) { r.URL.RawQuery = "token=one" }, 401},
	}
	for name, test := range tests {
		if got := status(h, test.change); got != test.want {
			t.Errorf("%s: status %d, want %d", name, got, test.want)
		}
	}
	empty := func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }
	if got := status(Require(ok), empty); got != 401 {
		t.Errorf("without any secret: status %d, want 401", got)
	}
}

func TestOnly(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:80": 200, "127.0.0.1": 200, "localhost:80": 200, "LOCALHOST": 200, "[::1]:80": 200, "127.9.9.9:1": 200,
		"": 403, "evil.example": 403, "evil.example:80": 403, "localhost.evil.example": 403,
		"127.0.0.1.evil.example": 403, "10.0.0.1:80": 403, "0.0.0.0:80": 403,
	} {
		if got := status(Only(ok), func(r *http.Request) { r.Host = host }); got != want {
			t.Errorf("host %q: status %d, want %d", host, got, want)
		}
	}
	for _, header := range []string{"Origin", "Sec-Fetch-Site"} {
		if got := status(Only(ok), func(r *http.Request) { r.Header.Set(header, "null") }); got != 403 {
			t.Errorf("with %s: status %d, want 403", header, got)
		}
	}
}

func TestSecretsDiffer(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if a == b || len(a) != 43 || strings.ContainsAny(a, "+/=") {
		t.Errorf("secrets %d and %d characters long, equal: %t", len(a), len(b), a == b)
	}
}

func TestServeAndClient(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Only(Require(ok, "secret"))) }()

	base := "http://" + l.Addr().String()
	var got struct{ Method, Body string }
	if err := NewClient(base, "secret").Do(ctx, "POST", "/x", []int{1}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.Body != "[1]" {
		t.Errorf("the server saw %+v", got)
	}
	var refused *StatusError
	if err := NewClient(base, "wrong").Do(ctx, "GET", "/", nil, nil); !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("wrong secret: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("after the end of its context: %v", err)
	}
	if err := NewClient(base, "secret").Do(t.Context(), "GET", "/", nil, nil); err == nil {
		t.Error("served after the end")
	}
}
