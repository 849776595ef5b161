package fleet

import "testing"

func TestNearest(t *testing.T) {
	for _, c := range []struct{ got, of, want string }{
		{"memry", "memory", "memory"},
		{"eu-l", "eu-1", "eu-1"},
		{"clam", "claim", "claim"},
		{"saml", "iam", ""}, // half of so few letters may be anything
		{"mx", "max", ""},
		{"ma", "name", ""},
		{"nothing", "memory", ""},
	} {
		if got := nearest(c.got, []string{c.of}); got != c.want {
			t.Errorf("%q is near %q, want %q", c.got, got, c.want)
		}
	}
}
