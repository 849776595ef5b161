package stamp

import (
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

// TestGoldenTemplates compares the templates of the sample fleet as they are, but for digests: the global stack, and
// of the first cell the core, the first shard and the watch. The cell's other shards are the same but for their ids;
// other cells differ in names, accounts and regions. Run with -update, and review the difference as what it will do.
func TestGoldenTemplates(t *testing.T) {
	cell := shape(t, "per-shard")
	got := map[string]string{"global": globalTemplate(t)}
	for _, stack := range []string{"core", "shard-s01", "watch"} {
		got["eu-canary."+stack] = cell["eu-canary/"+stack].text
	}
	for name, text := range got {
		file := filepath.Join("testdata", "sample", name+".json")
		text = normalised(text)
		if *update {
			write(t, file, text, 0o644)
		}
		if d := cmp.Diff(strings.Split(read(t, file), "\n"), strings.Split(text, "\n")); d != "" {
			t.Errorf("%s differs (-golden +now):\n%s", file, d)
		}
	}
	like := func(id string) []string {
		text := strings.ReplaceAll(normalised(cell["eu-canary/shard-"+id].text), id, "s01")
		return strings.Split(places.ReplaceAllString(text, "PLACE"), "\n")
	}
	for _, id := range []string{"s02", "s03", "s04"} {
		if d := cmp.Diff(like("s01"), like(id)); d != "" {
			t.Errorf("shard %s is not as s01 (-s01 +%s):\n%s", id, id, d)
		}
	}
}

// globalTemplate is the sample's global stack with all of its cells, none of which is built.
func globalTemplate(t *testing.T) string {
	t.Helper()
	f, err := fleet.Load(filepath.Join(root, "fleet.yaml"))
	must(t, err)
	context, err := settings()
	must(t, err)
	folder := t.TempDir()
	app := NewApp(Options{Out: folder, Context: context})
	newGlobal(app, f, nil)
	app.Synth(nil)
	return open(t, folder)["global"].text
}
