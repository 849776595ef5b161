package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"cellwall.dev/cellwall/internal/fleet"
)

// Edit is one value of the fleet's description that differs, defaults filled in. From or To is "" where the key
// is not there.
type Edit struct {
	Path string `json:"path"` // cells and shards by their names: cells[eu-1].shards[s17]
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Cell string `json:"cell,omitempty"` // of which cell alone it is
}

// Edits lists what differs between two fleets, by path.
func Edits(was, next *fleet.Fleet) ([]Edit, error) {
	a, err := flat(was)
	if err != nil {
		return nil, err
	}
	b, err := flat(next)
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for path := range a {
		paths[path] = true
	}
	for path := range b {
		paths[path] = true
	}
	edits := []Edit{}
	var whole []string // that come or go: what is in them needs no line of its own
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		x, before := a[path]
		y, after := b[path]
		if x == y && before == after || slices.ContainsFunc(whole, func(w string) bool {
			return strings.HasPrefix(path, w+".") || strings.HasPrefix(path, w+"[")
		}) {
			continue
		}
		edits = append(edits, Edit{Path: path, From: x, To: y, Cell: cellOf(path)})
		if before != after {
			whole = append(whole, path)
		}
	}
	return edits, nil
}

// cellOf is the cell that a path leads into, or "".
func cellOf(path string) string {
	rest, ok := strings.CutPrefix(path, "cells[")
	name, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return ""
	}
	return name
}

// flat is a fleet as the values of its paths. What holds others has a short text of its own, so that coming
// and going shows at one place.
func flat(f *fleet.Fleet) (map[string]string, error) {
	data, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write the fleet: %w", err)
	}
	var root any
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("read the fleet back: %w", err)
	}
	values := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if path != "" {
				values[path] = "present"
				path += "."
			}
			for key, child := range v {
				walk(path+key, child)
			}
		case []any:
			values[path] = list(v)
			for i, child := range v {
				if name := identity(child); name != "" {
					walk(path+"["+name+"]", child)
					values[path] = "a list"
				} else if _, object := child.(map[string]any); object {
					walk(fmt.Sprintf("%s[%d]", path, i), child)
					values[path] = "a list"
				}
			}
		default:
			values[path] = fmt.Sprint(v)
		}
	}
	walk("", root)
	return values, nil
}

// identity is what tells an element of a list from the others: a cell's name, a shard's id.
func identity(v any) string {
	m, _ := v.(map[string]any)
	for _, key := range []string{"name", "id"} {
		if name, ok := m[key].(string); ok {
			return name
		}
	}
	return ""
}

func list(items []any) string {
	text := make([]string, len(items))
	for i, item := range items {
		text[i] = fmt.Sprint(item)
	}
	return "[" + strings.Join(text, ", ") + "]"
}
