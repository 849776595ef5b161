package awsemu_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"cellwall.dev/cellwall/test/awsemu"
)

// TestDocumentedTemplateOnlyList holds docs/testing.md and the emulator to the same list.
func TestDocumentedTemplateOnlyList(t *testing.T) {
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := bytes.Cut(doc, []byte("## Template-only\n"))
	if !found {
		t.Fatal("docs/testing.md has no section Template-only")
	}
	list, _, _ = bytes.Cut(list, []byte("\n## "))
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllSubmatch(list, -1) {
		documented = append(documented, string(m[1]))
	}
	slices.Sort(documented)
	if listed := slices.Sorted(maps.Keys(use(t).TemplateOnly())); !slices.Equal(documented, listed) {
		t.Errorf("docs/testing.md lists %q, the emulator %q", documented, listed)
	}
}

// TestDocumentedTestsExist finds every test that docs/testing.md names, where it says.
func TestDocumentedTestsExist(t *testing.T) {
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []byte
	for _, dir := range []string{"test/awsemu", "test/deploy", "test/dynamo", "test/rie", "test/snapshots", "test/footnote", "test/local", "cdk/stamp", "internal/routing", "internal/dircache", "internal/awsevent", "internal/handler", "internal/adapter/shardlambda", "internal/adapter/cwmetrics", "internal/adapter/cwgate", "internal/adapter/probehttp", "lambda/shardkit", "test/rollout", "test/stacks", "internal/rollout/run"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, source...)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllSubmatch(doc, -1)
	if len(named) < 20 {
		t.Fatalf("docs/testing.md names %d tests", len(named))
	}
	for _, m := range named {
		if !bytes.Contains(sources, []byte("\nfunc "+string(m[1])+"(t *testing.T)")) {
			t.Errorf("docs/testing.md names %s, which is not there", m[1])
		}
	}
}
