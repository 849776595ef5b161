package limitdata

import (
	"regexp"
	"slices"
	"testing"
)

func TestWellFormed(t *testing.T) {
	all := All()
	if len(all) < 200 {
		t.Fatalf("only %d limits", len(all))
	}
	seen := map[string]bool{}
	code := regexp.MustCompile(`^L-[0-9A-F]{8}$`)
	id := regexp.MustCompile(`^[a-z0-9]+\.[a-z0-9-]+$`)
	for _, l := range all {
		if seen[l.ID] || !id.MatchString(l.ID) {
			t.Errorf("%s stands twice or is no id", l.ID)
		}
		seen[l.ID] = true
		if l.Name == "" || l.Service == "" || l.Scope == "" || l.Unit == "" || l.Source == "" || l.Quotas == "" {
			t.Errorf("%s lacks a word: %+v", l.ID, l)
		}
		if !slices.Contains([]Certainty{High, Medium, Low}, l.Certainty) {
			t.Errorf("%s is of certainty %q", l.ID, l.Certainty)
		}
		if l.Code != "" && !code.MatchString(l.Code) {
			t.Errorf("%s has the code %q", l.ID, l.Code)
		}
		if l.Default != nil && *l.Default <= 0 || l.Max != 0 && (l.Default == nil || l.Max <= *l.Default || !l.Adjustable) {
			t.Errorf("%s has default %v and maximum %v", l.ID, l.Default, l.Max)
		}
	}
}

func TestFound(t *testing.T) {
	for _, l := range All() {
		if got, ok := Get(l.ID); !ok || got.ID != l.ID {
			t.Errorf("%s is not found", l.ID)
		}
		if _, ok := Get(l.ID + "x"); ok {
			t.Errorf("%sx is found", l.ID)
		}
	}
	if _, ok := Get(""); ok {
		t.Error("the empty id is found")
	}
}

func TestRegional(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]{2}(-gov)?-[a-z]+-\d$`)
	several := 0
	for _, l := range All() {
		for region, want := range l.Regions {
			several++
			if l.Default == nil || want <= 0 || want == *l.Default || !name.MatchString(region) || l.In(region) != want {
				t.Errorf("%s in %s: %v", l.ID, region, want)
			}
		}
		if l.Default != nil && (l.In("") != *l.Default || l.In("xx-nowhere-1") != *l.Default) {
			t.Errorf("%s is not its default where nothing else is known", l.ID)
		}
	}
	if several == 0 {
		t.Error("no limit has a region's own number")
	}
}
