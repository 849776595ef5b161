package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// base is a valid fleet file that the cases change in one place.
const base = `service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  lambda: {asset: dist/worker, reservedConcurrency: 20}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4}
  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 8}
`

// faultCase replaces old, which stands once in base, and wants these faults, each without its file.
// Without old, the whole file is replaced.
type faultCase struct {
	name, old, new string
	want           []string
}

func (c faultCase) file(t *testing.T) string {
	t.Helper()
	if c.old == "" {
		return c.new
	}
	if strings.Count(base, c.old) != 1 {
		t.Fatalf("%q stands %d times in the base file, want once", c.old, strings.Count(base, c.old))
	}
	return strings.Replace(base, c.old, c.new, 1)
}

func TestBaseIsValid(t *testing.T) {
	if _, err := Parse("f", []byte(base)); err != nil {
		t.Fatal(err)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range slices.Concat(decodingFaults, ruleFaults, routingFaults, cellFaults, manyFaults) {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.file(t)))
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("Parse returned %v, want Faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, strings.TrimPrefix(f.Error(), "f:"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemovedKeyIsNamed takes away each key that is required, one at a time.
func TestRemovedKeyIsNamed(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"service: orders\n", "", "f:1:1: service is missing: it is required at the top of a fleet file; add service: …"},
		{", region: eu-west-1}", "}", "f:2:12: region is missing: it is required in directory; add region: …"},
		{"issuer: https://login.example.com/, ", "", "f:3:7: issuer is missing: it is required in auth; add issuer: …"},
		{", audience: orders", "", "f:3:7: audience is missing: it is required in auth; add audience: …"},
		{"asset: dist/worker, ", "", "f:5:11: asset is missing: it is required in shard.lambda; add asset: …"},
		{", reservedConcurrency: 20", "", "f:5:11: reservedConcurrency is missing: it is required in shard.lambda; add reservedConcurrency: …"},
		{"name: eu-1, ", "", "f:7:5: name is missing: it is required in cells[0]; add name: …"},
		{", shards: 8", "", "f:8:5: shards is missing: it is required in cells[1]; add shards: …"},
	} {
		_, err := Parse("f", []byte(strings.Replace(base, c.old, c.new, 1)))
		if err == nil || err.Error() != c.want {
			t.Errorf("without %q: %v\nwant %s", c.old, err, c.want)
		}
	}
}

// TestLimitsAreIncluded parses fleets that stand exactly at a limit, or name what must not be confused
// with something forbidden.
func TestLimitsAreIncluded(t *testing.T) {
	http := func(rest string) string {
		return "  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-01234567, us-east-1/arm64: ami-01234567}" + rest + "}\ncells:\n"
	}
	for name, c := range map[string][2]string{
		"every shard serves every tenant": {"auth:", "placement: {perTenant: 4}\nauth:"},
		"nothing left to reserve":         {"reservedConcurrency: 20}", "reservedConcurrency: 100}\nrouter: {reservedConcurrency: 99}"}, // us-1: 8 × 100 + 99 + 1 of 1000
		"consumers one below":             {"cells:\n", "  queue: {consumers: 19}\ncells:\n"},
		"33 characters":                   {"name: eu-1", "name: abcdefghijklmnop"},
		"100 shards on a load balancer":   {"cells:\n", http(", ingress: shared")},
		"min equals max":                  {"cells:\n", http(", min: 1, max: 1")},
		"one group for the cell":          {"cells:\n", http(", ingress: {grouped: 4}")},
		"the same ids in two cells":       {"shards: 4}", "shards: [{id: a}, {id: b}]}"},
		"a route before the catch-all":    {"auth:", "routes: [{path: /jobs, via: lambda}, {path: /jobs/*, via: lambda}, {path: /*, via: lambda}]\nauth:"},
		"smallest network":                {"shards: 4", "shards: 4, cidr: 192.168.16.0/20"},
		"percent of everything":           {"auth:", "budget: {degradedTenants: 100%, fullyDown: 0%}\nauth:"},
		"comments, CRLF and a mark":       {"service: orders\n", "\ufeff---\r\n# the service\r\nservice: orders # ours\r\n"},
	} {
		file := strings.Replace(base, c[0], c[1], 1)
		switch name {
		case "33 characters":
			file = strings.Replace(file, "shards: 4", "shards: [{id: abcdefghijk}, {id: b}]", 1)
		case "100 shards on a load balancer":
			file = strings.NewReplacer("shards: 4", "shards: 100", "reservedConcurrency: 20", "reservedConcurrency: 7", "shards: 8", "shards: 4").Replace(file)
		}
		if _, err := Parse("f", []byte(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFaultPointsToTheNearestValue is about a shard that no file names: the count that made it does.
func TestFaultPointsToTheNearestValue(t *testing.T) {
	file := strings.NewReplacer("service: orders", "service: abcdefghijklmnop", "name: eu-1", "name: qrstuvwxyzabcdef").Replace(base)
	const want = "f:7:97: service abcdefghijklmnop, cell qrstuvwxyzabcdef and shard s01 have 35 characters together: " +
		"at most 33 leave room for account and region in a bucket's name; shorten them by 2"
	if _, err := Parse("f", []byte(file)); err == nil || err.Error() != want {
		t.Errorf("Parse returned %v\nwant %s", err, want)
	}
}
