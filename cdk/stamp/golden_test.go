package stamp

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// digests are what follows from the bytes of assets and functions, which change with every release.
var digests = regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}|[0-9a-f]{64}`)

func normalised(text string) string { return digests.ReplaceAllString(text, "${1}DIGEST") }

// places are the digests of construct paths in logical ids.
var places = regexp.MustCompile(`[0-9A-F]{16,40}`)

// TestGoldenTemplates compares the templates of the sample fleet as they are, but for digests. The global stack and the
// first cell's core, first shard and watch stand whole in testdata/sample. Of each other cell stands how its templates
// differ from those, line by line. The other shards of each cell are as its first but for their ids. Review a difference
// as what it will do.
func TestGoldenTemplates(t *testing.T) {
	whole := wholeSample(t)
	golden := func(name, got string) {
		file := filepath.Join("testdata", "sample", name)
		if *update {
			write(t, file, got, 0o644)
		}
		if d := cmp.Diff(strings.Split(read(t, file), "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("%s differs (-golden +now):\n%s", file, d)
		}
	}
	golden("global.json", normalised(whole["global"].text))
	golden("watch-us-east-1.json", normalised(whole["watch-us-east-1"].text))
	stacks := []string{"core", "shard-s01", "watch"}
	for _, stack := range stacks {
		golden("eu-canary."+stack+".json", normalised(whole["eu-canary/"+stack].text))
	}
	for _, cell := range []string{"eu-1", "us-1"} {
		var b strings.Builder
		for _, stack := range stacks {
			fmt.Fprintf(&b, "--- eu-canary.%s\n+++ %s.%[1]s\n", stack, cell)
			b.WriteString(changes(normalised(whole["eu-canary/"+stack].text), normalised(whole[cell+"/"+stack].text)))
		}
		golden(cell+".diff", b.String())
	}
	shards := 0
	for _, path := range whole.paths() {
		cell, id, ok := strings.Cut(path, "/shard-")
		if !ok {
			continue
		}
		shards++
		like := func(id string) []string {
			text := strings.ReplaceAll(normalised(whole[cell+"/shard-"+id].text), id, "s01")
			return strings.Split(places.ReplaceAllString(text, "PLACE"), "\n")
		}
		if d := cmp.Diff(like("s01"), like(id)); d != "" {
			t.Errorf("shard %s of %s is not as s01 (-s01 +%[1]s):\n%s", id, cell, d)
		}
	}
	if stacks := 2 + 2*3 + shards; shards != 36 || len(whole) != stacks {
		t.Errorf("the fleet has the stacks %v: some are in no golden template", whole.paths())
	}
}

// fleetFile is the project's own fleet, all of it.
func fleetFile(t *testing.T) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Load(filepath.Join(root, "fleet.yaml"))
	must(t, err)
	f.Dir = dist(t, ARM64)
	return f
}

var wholeCache assembly

// wholeSample is the assembly of the project's own fleet, with every shard of every cell.
func wholeSample(t *testing.T) assembly {
	t.Helper()
	if wholeCache == nil {
		wholeCache = synth(t, fleetFile(t))
	}
	return wholeCache
}

// changes are the lines of two texts that differ, each group of them below where it stands: the last line of two spaces
// before it, which has a resource's logical id.
func changes(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	// longest[i][j] is the most lines that a[i:] and b[j:] have in common, in order.
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var out strings.Builder
	resource, said := "", ""
	differ := func(sign, line string) {
		if resource != said {
			fmt.Fprintf(&out, "@@ %s\n", strings.TrimSpace(resource))
			said = resource
		}
		out.WriteString(sign + line + "\n")
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			if strings.HasPrefix(a[i], `  "`) {
				resource = a[i]
			}
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			differ("-", a[i])
			i++
		default:
			differ("+", b[j])
			j++
		}
	}
	return out.String()
}

// TestGroupedChanges: of two texts each line is told that only one of them has, under the resource in which it stands.
func TestGroupedChanges(t *testing.T) {
	const was = "{\n  \"A\": {\n   \"P\": 1,\n   \"Q\": 2\n  },\n  \"B\": {\n   \"P\": 1\n  }\n}"
	const is = "{\n  \"A\": {\n   \"P\": 3,\n   \"Q\": 2\n  },\n  \"B\": {\n   \"P\": 1,\n   \"R\": 4\n  }\n}"
	const want = "@@ \"A\": {\n-   \"P\": 1,\n+   \"P\": 3,\n@@ \"B\": {\n-   \"P\": 1\n+   \"P\": 1,\n+   \"R\": 4\n"
	if got := changes(was, is); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := changes(was, was); got != "" {
		t.Errorf("a text differs from itself: %q", got)
	}
}
