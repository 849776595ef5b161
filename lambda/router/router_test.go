package main

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStartsWithoutClients: a start makes no client and loads no configuration of the SDK, which here would fail, as
// long as there is no snapshot to read.
func TestStartsWithoutClients(t *testing.T) {
	environment(t)
	t.Setenv("AWS_PROFILE", "that-is-in-no-file")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	if _, err := newClients().settings(); err == nil {
		t.Fatal("the configuration of the SDK loads, so that this test says nothing")
	}
	if _, _, err := router(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	t.Setenv("CELLWALL_SNAPSHOT_BUCKET", "bucket")
	if _, _, err := router(t.Context(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a router that is to read a snapshot starts without the SDK's configuration")
	}
}

// environment sets the variables of a router.
func environment(t testing.TB) {
	for name, value := range map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_CA_BUNDLE": "",
		"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_KEY_SECRET": "key", "CELLWALL_SNAPSHOT_BUCKET": "",
		"CELLWALL_DIRECTORY": "orders-directory", "CELLWALL_DIRECTORY_REGION": "eu-west-1", "CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
		"CELLWALL_AUTH":   `{"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`,
		"CELLWALL_ROUTES": `[{"path":"/*","via":"lambda"}]`,
		"CELLWALL_RULES":  `{"attemptTimeout":"5s","reserved":100,"queue":true}`,
	} {
		t.Setenv(name, value)
	}
}

// BenchmarkRouter is what a start does once the packages are initialised, over and over in one process. `make cold`
// measures the start itself.
func BenchmarkRouter(b *testing.B) {
	environment(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := router(b.Context(), slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCollectsLater: no garbage is collected while the packages are initialised, which allocates more than the 4 MB at
// which the runtime begins.
func TestCollectsLater(t *testing.T) {
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^$")
	self.Env = append(os.Environ(), "GODEBUG=gctrace=1,inittrace=1", "GOGC=")
	trace, err := self.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(trace))
	}
	if !strings.Contains(string(trace), "init github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas ") {
		t.Fatalf("the trace is none of this function: %s", trace)
	}
	if strings.Contains(string(trace), "\ngc 1 @") {
		t.Errorf("garbage is collected: %s", trace)
	}
}
