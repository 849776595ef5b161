package fleet

import (
	"errors"
	"strings"
	"testing"
)

// TestHostileFiles parses large files of the shapes that cost a careless reader its stack, its memory or
// its afternoon. There is nothing to assert but that each ends, with faults. A quarter of the largest
// size is enough: what takes more than linear time shows by then.
func TestHostileFiles(t *testing.T) {
	fill := func(piece string) string { return strings.Repeat(piece, maxFile/4/len(piece)) }
	laughs := "a: &a [x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		laughs += string(c) + ": &" + string(c) + " [*" + string(c-1) + ", *" + string(c-1) + "]\n"
	}
	indented := ""
	for i := range 1000 {
		indented += strings.Repeat(" ", i) + "a:\n"
	}
	for name, file := range map[string]string{
		"aliases that double":      laughs,
		"open brackets":            fill("["),
		"open braces":              fill("{a: "),
		"items in items":           fill("- "),
		"keys of keys":             fill("? "),
		"keys after keys":          fill("a: "),
		"indentation":              indented,
		"anchors":                  fill("&a "),
		"tags":                     fill("!a "),
		"unknown keys":             fill("a: b\n"),
		"keys in brackets":         "{" + fill("a: b, "),
		"keys of one name, quoted": fill("'a': b\n"),
		"explicit keys":            fill("? a\n: b\n"),
		"nested keys":              "a:\n" + fill(" b: c\n"),
		"items with keys":          fill("- a: 1\n  b: 2\n"),
		"items in brackets":        "[" + fill("{a: 1}, "),
		"escapes":                  `service: "` + fill(`\x41`) + `"`,
		"a literal text":           "service: |\n" + fill(" a\n"),
		"a text of many lines":     "service: a\n" + fill(" a\n"),
		"anchors of items":         fill("- &a x\n"),
		"aliases of items":         fill("- *a\n"),
		"items":                    fill("- a\n"),
		"documents":                fill("---\n"),
		"comments":                 fill("#\n"),
		"line breaks":              fill("\n"),
		"carriage returns":         fill("\r"),
		"quotes":                   fill("'"),
		"a long key":               fill("a") + ":",
		"a long text":              "service: " + fill("a"),
		"cells of 1000 shards":     strings.Replace(base, "  - {name: eu-1", strings.Repeat("  - {shards: 1000}\n", 12_000)+"  - {name: eu-1", 1),
		"1000 cells":               strings.Replace(base, "  - {name: eu-1", strings.Repeat("  - {shards: 1000}\n", 998)+"  - {name: eu-1", 1),
		"wrong values":             strings.Replace(base, "  - {name: eu-1", strings.Repeat("  - {shards: [{id: A, zone: AA, weight: 0}, {}]}\n", 998)+"  - {name: eu-1", 1),
		"a waste of waves":         base + "rollout: {waves: [" + strings.Repeat("{cells: [a, a]}, ", 1000) + "]}\n",
		"routes that overlap":      base + "routes: [" + strings.Repeat("{path: /*, via: queue}, ", 100) + "]\n",
		"sizes":                    base + "placement: {sizes: {" + strings.Repeat("a: {perTenant: 99}, ", 10_000) + "}}\n",
		"a text beyond the limit":  strings.Repeat("a", maxFile+1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(file))
			if _, ok := errors.AsType[Faults](err); !ok {
				t.Errorf("Parse returned %v, want Faults", err)
			}
		})
	}
}
