//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// cell is the one cell of this comparison.
const cell = "eu-1"

// issuer publishes the key by which tokens are signed here.
type issuer struct {
	url string
	key *rsa.PrivateKey
}

// newIssuer makes a key and serves it until ctx ends.
func newIssuer(ctx context.Context) (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	l, err := loopback.Listen()
	if err != nil {
		return nil, err
	}
	i := &issuer{"http://" + l.Addr().String(), key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		public := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
		loopback.Answer(w, http.StatusOK, map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "a", "n": public(key.N), "e": public(big.NewInt(int64(key.E))),
		}}})
	})
	go loopback.Serve(ctx, l, mux)
	return i, nil
}

// token signs a tenant's.
func (i *issuer) token(tenant string, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "sub": "load", "aud": audience, claim: tenant, "iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"a","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, i.key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// writeTokens writes the tokens of so many tenants into a file, one a line.
func (i *issuer) writeTokens(file string, tenants int) error {
	all, errs := make([]string, tenants), make([]error, runtime.GOMAXPROCS(0))
	now := time.Now()
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for n := w; n < tenants && errs[w] == nil; n += len(errs) {
				all[n], errs[w] = i.token(tenantName(n), now)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	for _, token := range all {
		fmt.Fprintln(out, token)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// placementKey is that of the cell. It guards nothing here.
var placementKey = make([]byte, 32)

func topology(shards int) directory.Topology {
	t := directory.Topology{
		Cell: cell, Version: 1, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: "1", KeyCheck: directory.KeyCheck(placementKey),
	}
	for i := range shards {
		t.Shards = append(t.Shards, directory.Shard{ID: shardName(i), Weight: 1, State: directory.InUse})
	}
	return t
}

// serveDirectory serves a directory of so many tenants in a cell of so many shards until ctx ends, and what a
// router asks beside it, which is for jobs, of which there are none.
func serveDirectory(ctx context.Context, shards, tenants int) (url string, err error) {
	home := directory.NewMemory()
	d, err := directory.Open(ctx, home)
	if err != nil {
		return "", err
	}
	now := time.Now()
	change := func(what string) directory.Change { return directory.Change{Operation: what, By: "proxies", At: now} }
	if err := d.Claim(ctx, "orders", change("claim")); err != nil {
		return "", err
	}
	if _, err := d.AddCell(ctx, directory.Cell{Name: cell}, change("add")); err != nil {
		return "", err
	}
	if _, err := d.Publish(ctx, topology(shards), change("publish")); err != nil {
		return "", err
	}
	entries := make([]directory.Entry, tenants)
	for n := range entries {
		entries[n] = directory.Entry{Tenant: tenantName(n), Cell: cell, State: directory.Active, Topology: 1}
	}
	if _, err := d.Enrol(ctx, entries, change("enrol")); err != nil {
		return "", err
	}
	l, err := loopback.Listen()
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/directory/", httpdir.ServingHandler(home))
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	go loopback.Serve(ctx, l, mux)
	return "http://" + l.Addr().String(), nil
}

// writeState writes what a local cell's router reads at its start.
func writeState(dir string, s setting) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	workers := map[string]string{}
	for i, address := range s.workers {
		workers[shardName(i)] = "http://" + address
	}
	plan := map[string]any{
		"service": "orders", "cell": cell, "audience": audience, "claim": claim, "routes": []map[string]string{{"path": "/*", "via": "http"}},
		"router": map[string]any{"attemptTimeout": 5 * time.Second, "state": "cell", "idempotencyKeys": true, "fanoutConcurrency": 10},
	}
	for name, value := range map[string]any{
		"plan.json":     map[string]any{"cells": []any{plan}, "keyFiles": map[string]string{cell: "placement-key"}},
		"placement-key": map[string]string{"1": fmt.Sprintf("%x", placementKey)},
		"router.json": map[string]any{
			"plan": plan, "issuer": s.issuer, "directory": s.directory, "store": s.directory, "workers": workers,
			"storeSecret": "none", "workerSecret": "none", "adminSecret": loopback.NewSecret(), "remember": time.Hour,
		},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
