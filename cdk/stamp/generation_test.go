package stamp

import (
	"regexp"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
)

// anyVersion is a template without the hashes in the ids of functions' versions, which change with the functions.
func anyVersion(text string) string {
	return regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}`).ReplaceAllString(text, "$1")
}

// TestGeneration: in another generation of a cell all that stays when its stacks go has another name, so that the
// cell can be stamped beside it; what goes with them keeps its name, and so do the logical ids.
func TestGeneration(t *testing.T) {
	all := func(generation int) func(*fleet.Fleet) {
		return func(f *fleet.Fleet) {
			f.Shard.Table, f.Shard.Bucket = &fleet.Table{MaxReads: 12000, MaxWrites: 4000}, &fleet.Bucket{}
			f.Shard.Encryption = fleet.EncryptionOwn
			f.Cells[0].Quarantine = []string{"s03", "s04"}
			f.Cells[0].Generation = generation
		}
	}
	first, second := synth(t, sample(t, all(0))), synth(t, sample(t, all(2)))
	kept := 0
	for _, path := range []string{"eu-canary/core", "eu-canary/shard-s01"} {
		for id, r := range second[path].Template.Resources {
			name, named := r.Properties[physical[r.Type].property].(string)
			if !named {
				continue
			}
			stays := strings.HasPrefix(r.DeletionPolicy, "Retain")
			if stays {
				kept++
			}
			// A key's alias goes with the stack; the key itself is deleted days later.
			if ours := strings.HasSuffix(name, "-g2"); ours != (stays || r.Type == "AWS::KMS::Alias") {
				t.Errorf("%s %s in %s is %s, and is deleted by %q", r.Type, id, path, name, r.DeletionPolicy)
			}
			before, ok := first[path].Template.Resources[id]
			if had := before.Properties[physical[r.Type].property]; !ok || had != strings.TrimSuffix(name, "-g2") {
				t.Errorf("%s %s in %s was %v", r.Type, id, path, had)
			}
		}
		// Whoever names them does so by the same generation: without it, the templates are those of before.
		same := anyVersion(strings.NewReplacer("-g2", "", "g2-1", "1", `"CELLWALL_GENERATION":"2",`, "").Replace(text(second[path].Template.Resources)))
		if want := anyVersion(text(first[path].Template.Resources)); same != want {
			t.Errorf("%s differs in more than its generation:\n%s", path, difference(strings.ReplaceAll(want, ",", ",\n"), strings.ReplaceAll(same, ",", ",\n")))
		}
	}
	if kept < 9 { // store, secret, snapshot's bucket, dispatch and its dead letters; table, bucket, queue, dead letters
		t.Errorf("only %d named resources stay", kept)
	}
	core := second["eu-canary/core"]
	for _, fn := range []string{"orders-eu-canary-router", "orders-eu-canary-keeper"} {
		if got := core.environment(t, fn)("CELLWALL_GENERATION"); got != "2" {
			t.Errorf("%s is told generation %q", fn, got)
		}
	}
	if key := core.one(t, "AWS::SecretsManager::Secret").at("GenerateSecretString").(map[string]any)["GenerateStringKey"]; key != "g2-1" {
		t.Errorf("the first version of the key is %v", key)
	}
}
