package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
)

// Note is about a setting of the fleet file that is valid, and that has no effect or not all of what one may expect.
type Note struct {
	Line int    `json:"line"` // from 1
	Col  int    `json:"col"`  // in characters, from 1
	Path string `json:"path"`
	Text string `json:"text"`
}

// noEffectYet are the keys that are checked and that nothing acts on so far, with what will. Whoever
// gives one an effect removes it here; docs/fleet.md is made from this list, too.
var noEffectYet = map[string]string{}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// notes returns one note for each key without effect that stands in the file, at its first place.
func (c *checker) notes() []Note {
	first := map[string]Note{}
	for path, at := range c.at {
		key := index.ReplaceAllString(path, "[]")
		text, listed := noEffectYet[key]
		if !listed {
			continue
		}
		n := Note{Line: at.line, Col: at.col, Path: path, Text: fmt.Sprintf("%s has no effect yet: %s", path, text)}
		if known, ok := first[key]; !ok || before(n, known) < 0 {
			first[key] = n
		}
	}
	var notes []Note
	for _, n := range first {
		notes = append(notes, n)
	}
	used := map[string]bool{c.f.Directory.Account: true}
	for _, cell := range c.f.Cells {
		used[cell.Account] = true
	}
	for id := range c.f.Accounts {
		if path := join("accounts", id); !used[id] {
			at := c.where(path + keySuffix)
			notes = append(notes, Note{Line: at.line, Col: at.col, Path: path, Text: path + " has no effect: neither a cell nor the directory is in that account"})
		}
	}
	notes = append(notes, c.untold()...)
	slices.SortFunc(notes, before)
	return notes
}

// untold are the cells, and regions of the directory and its front doors, of whose alarms nobody is told although alerts
// are wanted: alarms tell topics of their own region alone.
func (c *checker) untold() []Note {
	var notes []Note
	if c.f.Alerts == nil {
		return nil
	}
	note := func(path, of, region string) {
		if c.f.Alerts.Topic(region) == "" {
			at := c.where(path)
			notes = append(notes, Note{Line: at.line, Col: at.col, Path: path,
				Text: fmt.Sprintf("nobody is told of the alarms of %s: alerts has no topic in %s; add one under alerts.topics", of, region)})
		}
	}
	for i, cell := range c.f.Cells {
		note(fmt.Sprintf("cells[%d].region", i), "cell "+cell.Name, cell.Region)
	}
	note("directory.region", "the directory", c.f.Directory.Region)
	for i, region := range c.f.Directory.Replicas {
		note(fmt.Sprintf("directory.replicas[%d]", i), "the directory's replica", region)
	}
	return notes
}

func before(a, b Note) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Path, b.Path))
}
