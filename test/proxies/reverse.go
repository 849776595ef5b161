//go:build linux

package main

import (
	"context"
	"hash/maphash"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// What tokens of this comparison say.
const (
	audience = "orders"
	claim    = "tenant_id"
)

// remember is how many tokens the proxies remember that verify them, as a cell's local router does.
const remember = 1 << 18

// reverse is the ReverseProxy process: the token check of cellwall's router, and then a shard by a hash of the
// tenant. Its server and its connections to the workers are set as the router's are, and it has the bare minimum of
// what a router does.
func reverse(issuer string, workers []string) error {
	tokens, err := tokenverify.New(tokenverify.Config{Issuer: issuer, Audience: audience, Claim: claim, Remember: remember})
	if err != nil {
		return err
	}
	l, err := inherited(0)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return loopback.Serve(ctx, l, checked(tokens, newProxies(workers)))
}

// newProxies makes a proxy to each worker, over one pool of connections.
func newProxies(workers []string) (all []http.Handler) {
	pool := &http.Transport{
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 50 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	for _, worker := range workers {
		target := &url.URL{Scheme: "http", Host: worker}
		all = append(all, &httputil.ReverseProxy{Transport: pool, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		}})
	}
	return all
}

// checked lets requests through whose token is good, each to the proxy of its tenant.
func checked(tokens identity.TokenVerifier, proxies []http.Handler) http.Handler {
	seed := maphash.MakeSeed()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := identity.Bearer(r.Header)
		if err != nil {
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		tenant, err := tokens.Verify(r.Context(), token)
		if err != nil {
			http.Error(w, "a verified token is needed", http.StatusUnauthorized)
			return
		}
		proxies[maphash.String(seed, tenant)%uint64(len(proxies))].ServeHTTP(w, r)
	})
}
