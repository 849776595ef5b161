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
	for _, c := range slices.Concat(decodingFaults, ruleFaults) {
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
