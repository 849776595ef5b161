package cli

import (
	"strings"
	"testing"
)

// A key file with a version twice would place by whichever json takes.
func TestKeysOfOneVersion(t *testing.T) {
	key := strings.Repeat("ab", minKey)
	other := strings.Repeat("cd", minKey)
	if k, err := parseKeys([]byte(`{"1":"` + key + `","2":"` + other + `"}`)); err != nil || len(k.byVersion) != 2 {
		t.Errorf("%v", err)
	}
	for _, text := range []string{`{"1":"` + key + `","1":"` + other + `"}`, `{"1":"` + key + `","\u0031":"` + key + `"}`} {
		if _, err := parseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), `version "1" has two keys`) || strings.Contains(err.Error(), key) {
			t.Errorf("%v", err)
		}
	}
	if _, err := parseKeys([]byte(`{"1":["` + key + `"]}`)); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
}
