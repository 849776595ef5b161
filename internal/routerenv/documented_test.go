package routerenv

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVariablesAreDocumented: docs/deploying.md has exactly the variables that each function reads.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile("`(CELLWALL_[A-Z_]+)`")
	documented := map[string][]string{} // variables by function
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(line, "| `CELLWALL_") {
			continue
		}
		for _, name := range variable.FindAllStringSubmatch(cells[1], -1) {
			for of := range strings.SplitSeq(cells[2], ",") {
				of = strings.TrimSpace(of)
				documented[of] = append(documented[of], name[1])
			}
		}
	}
	for of, parse := range map[string]func(func(string) string) error{
		"router":              func(getenv func(string) string) error { _, err := Parse(getenv); return err },
		"front door":          func(getenv func(string) string) error { _, err := ParseFrontDoor(getenv); return err },
		"front door's keeper": func(getenv func(string) string) error { _, err := ParseFrontDoorKeeper(getenv); return err },
		"keeper":              func(getenv func(string) string) error { _, err := ParseKeeper(getenv); return err },
	} {
		read := map[string]bool{}
		if parse(func(name string) string { read[name] = true; return "" }) == nil {
			t.Errorf("an empty environment is a %s's", of)
		}
		slices.Sort(documented[of])
		if want := slices.Sorted(maps.Keys(read)); !slices.Equal(documented[of], want) {
			t.Errorf("a %s reads %v, and the table has %v", of, want, documented[of])
		}
	}
}
