package routing

import (
	"slices"
	"testing"
)

// TestReadings: the ways in which a path can be read, and what is no path.
func TestReadings(t *testing.T) {
	for raw, want := range map[string][]string{
		"/":                   {"/"},
		"/orders/1":           {"/orders/1"},
		"/a/../b":             {"/a/../b", "/b"},
		"/a//b":               {"/a//b", "/a/b"},
		"/a%2Fb":              {"/a%2Fb", "/a/b"},
		"/%61":                {"/a"},
		"/%2561":              {"/%61", "/a"},
		`/a\b`:                {`/a\b`, "/a/b"},
		"/a;x/b":              {"/a;x/b", "/a/b"},
		"/a%3Bx/b":            {"/a;x/b", "/a/b"},
		"/a/..;/b":            {"/a/..;/b", "/a/../b", "/b"},
		"/a%2F..%2Fb/%2e%2e/": {"/a/../b/../", "/"},
	} {
		got, ok := Readings(raw)
		if !ok {
			t.Errorf("%s cannot be read", raw)
		}
		for _, reading := range want {
			if !slices.Contains(got, reading) {
				t.Errorf("%s is read as %q, without %q", raw, got, reading)
			}
		}
	}
	for _, raw := range []string{"", "a", "/%", "/%zz", "/a%00", "/a?b", "/a#b", "*", "http://x/"} {
		if got, ok := Readings(raw); ok {
			t.Errorf("%q is read as %q", raw, got)
		}
	}
}
