package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

// placed are flags with which hmac/v1 gives known vectors of Recipe 12.1.
var placed = []string{"--scheme", "hmac/v1", "--shards", "7", "--per-tenant", "2", "--key-hex", "73687566666c652d73686172642d7631"}

// command runs a command line.
func command(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errw bytes.Buffer
	status = Run(context.Background(), args, strings.NewReader(stdin), &out, &errw)
	return status, out.String(), errw.String()
}

func TestPlace(t *testing.T) {
	file := tenantsFile(t, "tenant,load\nacme,1\n<b&>,2\n")
	with := func(args ...string) []string { return slices.Concat([]string{"place"}, placed, args) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{with("acme"), "acme\t4 5\n"},
		{with("--json", "acme"), `{"tenant":"acme","shards":[4,5]}` + "\n"},
		{with("--tenants-file", file), "acme\t4 5\n<b&>\t5 1\n"},
		{with("--json", "--tenants-file", file), `{"tenant":"acme","shards":[4,5]}` + "\n" + `{"tenant":"<b&>","shards":[5,1]}` + "\n"},
		{with("--tenants-file", "-"), "acme\t4 5\n"},
		{with("--", "-x", "a\tb", `"`), "-x\t4 1\n\"a\\tb\"\t5 1\n\"\\\"\"\t3 4\n"},
	} {
		status, out, errw := command("acme\n", c.args...)
		if status != ExitDone || out != c.want {
			t.Errorf("%q: status %d, %q; want %q\n%s", c.args, status, out, c.want, errw)
		}
		if !strings.HasPrefix(errw, "note: a key given by --key-hex") || strings.Count(errw, "\n") != 1 {
			t.Errorf("%q: standard error is %q", c.args, errw)
		}
	}
}

// The indices of rendezvous/v1 are those of the shards that a cell with a count has.
func TestPlaceRendezvous(t *testing.T) {
	const n, k = 120, 5
	shards := make([]placement.Shard, n)
	for i := range shards {
		shards[i] = placement.Shard{ID: fmt.Sprintf("s%02d", i+1), Weight: 1}
	}
	if counted := fleet.CountedShard(n - 1); counted != "s120" {
		t.Fatalf("the last counted shard is %s", counted)
	}
	placer, err := placement.New(placement.Config{Scheme: placement.RendezvousV1, Key: []byte{0x6b}, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	subsets, err := placer.PerTenant(k)
	if err != nil {
		t.Fatal(err)
	}
	status, out, errw := command("", "place", "--scheme", "rendezvous/v1", "--shards", "120", "--per-tenant", "5", "--key-hex", "6b", "--json", "acme")
	var line struct{ Shards []int }
	if err := json.Unmarshal([]byte(out), &line); status != ExitDone || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errw)
	}
	if want, err := subsets.Append(nil, placement.Tenant{ID: "acme"}); err != nil || !slices.Equal(line.Shards, want) {
		t.Errorf("%v, want %v (%v)", line.Shards, want, err)
	}
}

// Over zones the two members lie in two of them, and the zones are those of a fleet with a count.
func TestPlaceZones(t *testing.T) {
	status, out, errw := command("", "place", "--scheme", "rendezvous/v1", "--shards", "24", "--zones", "a,b,c", "--per-tenant", "2", "--key-hex", "6b", "--json", "a", "b", "c", "d", "e", "f", "g", "h")
	if status != ExitDone || strings.Count(out, "\n") != 8 {
		t.Fatalf("status %d: %s%s", status, out, errw)
	}
	for text := range strings.Lines(out) {
		var line struct{ Shards []int }
		if err := json.Unmarshal([]byte(text), &line); err != nil || len(line.Shards) != 2 || line.Shards[0]%3 == line.Shards[1]%3 {
			t.Errorf("%s: both members are in one zone (%v)", text, err)
		}
	}
}

// Tenants of a list take the slots of bounded/v1 in its order, and one more than there are is told the
// capacity.
func TestPlaceBounded(t *testing.T) {
	args := []string{"place", "--scheme", "bounded/v1", "--shards", "6", "--zones", "a,b", "--per-tenant", "2", "--max-shared", "1", "--key-hex", "6b", "--json"}
	tenants := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	status, out, errw := command("", append(args, tenants...)...)
	if status != ExitDone {
		t.Fatalf("status %d: %s", status, errw)
	}
	seen := map[[2]int]bool{}
	for text := range strings.Lines(out) {
		var line struct{ Shards []int }
		if err := json.Unmarshal([]byte(text), &line); err != nil || len(line.Shards) != 2 {
			t.Fatalf("%s: %v", text, err)
		}
		slices.Sort(line.Shards)
		seen[[2]int(line.Shards)] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d subsets of 9", len(seen))
	}
	status, out, errw = command("", append(args, append(tenants, "j")...)...)
	if status != ExitUsage || out != "" || !strings.Contains(errw, "tenant j: slot 10 is beyond the 9") {
		t.Errorf("a tenth tenant: status %d, %q, %s", status, out, errw)
	}
}

// Wrong use has status 2, says why and prints nothing on standard output, not even what was right.
func TestPlaceRefuses(t *testing.T) {
	bad := tenantsFile(t, "acme\nbeta\n\n")
	with := func(name, value string) []string { // the flags with one changed
		args := slices.Concat([]string{"place"}, placed, []string{"acme"})
		args[slices.Index(args, name)+1] = value
		return args
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"place", "acme"}, "error: --scheme, --shards, --per-tenant, a key (--key-file or --key-hex) must be given\nhint: "},
		{slices.Concat([]string{"place"}, placed[:6], []string{"acme"}), "error: a key (--key-file or --key-hex) must be given\nhint: "},
		{slices.Concat(with("--scheme", "hmac/v1"), []string{"--zones", "a,b,c,d,e,f,g,h"}), "error: --zones has 8: want at most the number of shards, 7"},
		{slices.Concat(with("--scheme", "hmac/v1"), []string{"--max-shared", "1"}), "error: shards that two tenants may share out of range: 1 under hmac/v1"},
		{slices.Concat(with("--scheme", "bounded/v1"), []string{"--max-shared", "1"}), "error: shards do not make equal stripes"},
		{with("--scheme", "bounded/v2"), `error: --scheme: unknown placement scheme "bounded/v2": want hmac/v1, rendezvous/v1 or bounded/v1`},
		{with("--scheme", ""), `error: --scheme: unknown placement scheme ""`},
		{with("--shards", "0"), "error: --shards: number of shards out of range: 0, want 1 to 65536"},
		{with("--shards", "-1"), "error: --shards: number of shards out of range"},
		{with("--shards", "9223372036854775807"), "error: --shards: number of shards out of range"},
		{with("--shards", "9223372036854775808"), `error: invalid argument "9223372036854775808" for "--shards" flag`},
		{with("--shards", "seven"), `error: invalid argument "seven" for "--shards" flag`},
		{with("--per-tenant", "0"), "error: --per-tenant: shards per tenant out of range: 0 of 7 shards, want 1 to 7"},
		{with("--per-tenant", "8"), "error: --per-tenant: shards per tenant out of range: 8 of 7"},
		{with("--key-hex", ""), "error: --key-hex: placement key is empty"},
		{with("--key-hex", "abc"), "error: --key-hex is not hexadecimal"},
		{with("--key-hex", "0g"), "error: --key-hex is not hexadecimal"},
		{slices.Concat([]string{"place"}, placed), "error: no tenant is named\nhint: "},
		{slices.Concat([]string{"place"}, placed, []string{"acme", "acme"}), `error: argument 2: tenant "acme" was named before`},
		{slices.Concat([]string{"place"}, placed, []string{"acme", ""}), "error: argument 2: the tenant's id is empty"},
		{slices.Concat([]string{"place"}, placed, []string{"acme", "--tenants-file", bad}), "error: tenants are named as arguments and in --tenants-file"},
		{slices.Concat([]string{"place"}, placed, []string{"--tenants-file", bad}), "error: " + bad + ":3: the tenant's id is empty"},
		{slices.Concat([]string{"place"}, placed, []string{"--tenants-file", ""}), "error: cannot read the tenants"},
		{slices.Concat([]string{"place"}, placed, []string{"--colour", "acme"}), "error: unknown flag: --colour"},
	} {
		status, out, errw := command("", c.args...)
		if at := strings.Index(errw, "error: "); status != ExitUsage || out != "" || at < 0 || !strings.HasPrefix(errw[at:], c.want) {
			t.Errorf("%q: status %d, output %q, error %q; want status 2 and %q", c.args, status, out, errw, c.want)
		}
		if strings.Contains(errw, placed[7]) {
			t.Errorf("%q: the key is on standard error: %s", c.args, errw)
		}
	}
}

// TestPlaceVectors runs all 160 published vectors of Recipe 12.1 through the command line.
func TestPlaceVectors(t *testing.T) {
	raw, err := os.ReadFile("../placement/testdata/recipe-12-1.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Tenant string `json:"tenant"`
		N      int    `json:"n"`
		K      int    `json:"k"`
		Key    string `json:"key_hex"`
		Shards []int  `json:"shards"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors) != 160 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	long, fromFile := 0, 0
	for _, v := range vectors {
		args := []string{"place", "--json", "--scheme", "hmac/v1", "--shards", fmt.Sprint(v.N), "--per-tenant", fmt.Sprint(v.K), "--key-hex", v.Key}
		if strings.Contains(v.Tenant, "\x00") { // which no argument of a process can hold
			fromFile++
			args = append(args, "--tenants-file", tenantsFile(t, v.Tenant+"\n"))
		} else {
			args = append(args, "--", v.Tenant)
		}
		status, out, errw := command("", args...)
		var line struct {
			Tenant string
			Shards []int
		}
		if err := json.Unmarshal([]byte(out), &line); status != ExitDone || err != nil || line.Tenant != v.Tenant || !slices.Equal(line.Shards, v.Shards) {
			t.Errorf("%.40q of %d: status %d, %v, %s%s", v.Tenant, v.N, status, err, out, errw)
		}
		noted := strings.Contains(errw, "a cell's directory takes ids of 1 to 128 bytes")
		if noted != (len(v.Tenant) > 128) {
			t.Errorf("%.40q: standard error is %s", v.Tenant, errw)
		}
		if noted {
			long++
		}
	}
	if long == 0 || fromFile == 0 {
		t.Errorf("%d vectors with a long id, %d with a NUL", long, fromFile)
	}
}

// Placement has no limit of its own; the command line has one, for what is no id at all.
func TestPlaceLongIDs(t *testing.T) {
	most := strings.Repeat("x", 4096)
	for _, c := range []struct {
		ids, want string
		status    int
	}{
		{most + "\n" + most[:200] + "\n" + most[:128] + "\n", "note: 2 ids of more than 128 bytes", ExitDone},
		{most + "x\n", "standard input:1: the tenant's id is 4097 bytes long: write 1 to 4096 bytes", ExitUsage},
		{most + most + most, "standard input:1: the line is longer than 8960 bytes", ExitUsage},
		{"tenant,load\n\"" + strings.Repeat(`""`, 4096) + "\",1\n", "note: 1 id of more than", ExitDone},
	} {
		status, _, errw := command(c.ids, slices.Concat([]string{"place"}, placed, []string{"--tenants-file", "-"})...)
		if status != c.status || strings.Count(errw, c.want) != 1 {
			t.Errorf("%.20q…: status %d, %s; want %q", c.ids, status, errw, c.want)
		}
	}
}

// An output that cannot be written is a failure, and not wrong use.
func TestPlaceBrokenOutput(t *testing.T) {
	for _, asJSON := range []string{"--json=false", "--json"} {
		var errw bytes.Buffer
		args := slices.Concat([]string{"place"}, placed, []string{asJSON, "acme"})
		status := Run(context.Background(), args, nil, brokenWriter{}, &errw)
		if status != ExitFailed || !strings.Contains(errw.String(), "error: writing the subsets: the pipe is closed") {
			t.Errorf("%s: status %d, %s", asJSON, status, errw.String())
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func tenantsFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenants")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
