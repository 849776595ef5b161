package assembly

import (
	"maps"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	for text, want := range map[string]map[string]int{
		`{"Resources": {"A": {}, "B": {}}}`: {"A": 1, "B": 1},
		"{\n \"Outputs\": {\"X\":\n 1},\n \"Resources\": {\n  \"A\": {\n   \"B\": [1]},\n\n  \"C\": 3}}": {"A": 5, "C": 8},
		"\n\n{\"Resources\":\r\n{\"A\": 1,\r\n\"B\"\n: 2}}":                                              {"A": 4, "B": 5},
		"Outputs:\n  A: 1\nResources:\n  # one\n  A: {Type: T}\n  \"B\": !Ref A\n":                       {"A": 5, "B": 6},
		"\xef\xbb\xbf{\"Resources\": {\n\"A\": 1}}":                                                      {"A": 2},
		`{"Resources": 3}`:            {},
		`{"Resources": {"A": {}, "B"`: {"A": 1, "B": 1},
		"":                            nil,
		"[":                           nil,
		"- 1":                         {},
		strings.Repeat("[", 20000):    nil,
	} {
		if got := Lines([]byte(text)); !maps.Equal(got, want) {
			t.Errorf("%.80q: %v, want %v", text, got, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"Resources": {"A": {}}}`))
	f.Add([]byte("Resources:\n  A: &a {b: *a}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		most := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 1
		for id, n := range Lines(data) {
			if n < 1 || n > most {
				t.Errorf("%q on line %d of %d", id, n, most)
			}
		}
	})
}
