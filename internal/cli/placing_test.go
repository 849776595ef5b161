package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A key from a file places as the same key from the command line, and without its warning.
func TestPlaceKeyFile(t *testing.T) {
	t.Chdir(t.TempDir())
	key := strings.Repeat("0f", 32)
	if err := os.WriteFile("key", []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"place", "--scheme", "rendezvous/v1", "--shards", "16", "--per-tenant", "3", "acme", "beta"}
	_, want, _ := command("", with(args, "--key-hex", key)...)
	status, out, errw := command("", with(args, "--key-file", "key")...)
	if status != ExitDone || out != want || errw != "" || strings.Contains(out, key) {
		t.Errorf("status %d, %s%s; want %s", status, out, errw, want)
	}
	if err := os.WriteFile("short", []byte("6b"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--key-file", "key", "--key-hex", "6b"}, "a key is given by --key-hex and by --key-file"},
		{[]string{"--key-file", "short"}, "--key-file short: want at least 64 hexadecimal digits"},
		{[]string{"--key-file", "none"}, "--key-file none: there is no such file"},
	} {
		status, out, errw := command("", slices.Concat(args, c.args)...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, c.want) {
			t.Errorf("%q: status %d, %q, %q", c.args, status, out, errw)
		}
	}
}

// with adds arguments to a copy.
func with(args []string, more ...string) []string { return slices.Concat(args, more) }

func TestPlaceWeightsAndSlots(t *testing.T) {
	rendezvous := []string{"place", "--scheme", "rendezvous/v1", "--shards", "4", "--per-tenant", "1", "--key-hex", "6b"}
	tenants := recipeTenants(3000)
	status, out, errw := command(tenants, with(rendezvous, "--weights", "1,1,1,3", "--tenants-file", "-")...)
	if n := strings.Count(out, "\t3\n"); status != ExitDone || n < 1400 || n > 1600 { // half of them, give or take 3.6 standard deviations
		t.Errorf("status %d: %d of 3000 on the shard with half of the weight: %s", status, n, errw)
	}
	bounded := []string{"place", "--scheme", "bounded/v1", "--shards", "6", "--zones", "a,b", "--per-tenant", "2", "--max-shared", "1", "--key-hex", "6b"}
	_, all, _ := command("", with(bounded, "a", "b", "c")...)
	status, out, errw = command("", with(bounded, "--slot", "3", "c")...)
	if status != ExitDone || out == "" || !strings.HasSuffix(all, out) {
		t.Errorf("status %d: slot 3 is %q, the third of the list %q: %s", status, out, all, errw)
	}
	for _, c := range []struct{ args, want []string }{
		{with(rendezvous, "--weights", "1,1", "a"), []string{"--weights has 2: want one for each of 4 shards"}},
		{with(rendezvous, "--weights", "1,1,0,1", "a"), []string{"weight out of range"}},
		{with(rendezvous, "--weights", "1,1,x,1", "a"), []string{"invalid argument", "decimal"}},
		{with(rendezvous, "--zones", "a,a", "a"), []string{"--zones a,a: want names, each once"}},
		{with(rendezvous, "--zones", "a,,b", "a"), []string{"--zones a,,b: want names"}},
		{with(bounded, "--weights", "1,1,1,1,1,2", "a"), []string{"--weights: bounded/v1 does not weigh shards"}},
		{with(bounded, "--slot", "0", "a"), []string{"--slot is 0: slots are numbered from 1"}},
		{with(bounded, "--slot", "10", "a"), []string{"tenant a", "9"}},
		{with(bounded, "--shards", "5", "a"), []string{"stripes"}},
	} {
		status, out, errw := command("", c.args...)
		if status != ExitUsage || out != "" {
			t.Errorf("%q: status %d, %q", c.args, status, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errw, want) {
				t.Errorf("%q: %q, want %q", c.args, errw, want)
			}
		}
	}
}
