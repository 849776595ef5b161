package shardkit_test

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// tricky are texts that some way of joining, cleaning or normalizing takes for another.
var tricky = []string{
	"a", "A", "ab", "a/b", "a%2Fb", "a%2fb", "%61", ".", "..", "...", "%2E", "%2E%2E", "../a", "/", "//", "a/", "/a", "a/../b", "~", "-", " ", "a ", "\x00", "\n",
	"\u00e4", "a\u0308", "\u212b", "\u00c5", "\u00df", "ss", "\u017f", "s", "\ufeffa", "\u200da", "\u2024\u2024", "\uff0e\uff0e", "\uff0f", "\u2215", "tenants", "tenants/a", "a#b", "a?b", "a\\b", "%", "%%", "\xff", "\xc3", "con", "a.", "a:b",
}

func texts(most int) *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(tricky), rapid.StringN(1, most, most), rapid.StringMatching(`[a/.%2EF]{1,6}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 8), func(b []byte) string { return string(b) }),
	)
}

func tenants() *rapid.Generator[string] {
	return texts(20).Filter(utf8.ValidString)
}

// TestApart draws pairs: what differs is named differently, and is found within its tenant alone.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tenants().Draw(t, "a"), tenants().Draw(t, "b")
		as, bs := rapid.SliceOfN(texts(12), 1, 4).Draw(t, "as"), rapid.SliceOfN(texts(12), 1, 4).Draw(t, "bs")
		an, err := shardkit.Name(a, as...)
		bn, bErr := shardkit.Name(b, bs...)
		if err != nil || bErr != nil {
			t.Fatalf("%q %q: %v; %q %q: %v", a, as, err, b, bs, bErr)
		}
		same := a == b && slices.Equal(as, bs)
		if (an == bn) != same {
			t.Fatalf("%q %q is %q, %q %q is %q", a, as, an, b, bs, bn)
		}
		ac, _ := shardkit.CacheName(a, as...)
		bc, _ := shardkit.CacheName(b, bs...)
		if (ac == bc) != same {
			t.Fatalf("%q %q is cached as %q, %q %q as %q", a, as, ac, b, bs, bc)
		}
		ap, err := shardkit.Prefix(a)
		if err != nil || !strings.HasPrefix(an, ap) || strings.HasPrefix(bn, ap) != (a == b) {
			t.Fatalf("%q begins names with %q, %v; names are %q and, of %q, %q", a, ap, err, an, b, bn)
		}
		checkName(t, a, as, an)
		if len(ac) != 113 || !plain(ac) || !strings.HasPrefix(ac, "tenants/"+names.Tenant(a)+"/") {
			t.Fatalf("cached as %q", ac)
		}
	})
}

type fataler interface{ Fatalf(string, ...any) }

// checkName: a name is plain, read back, and the same after a path's cleaning.
func checkName(t fataler, tenant string, segments []string, name string) {
	if !plain(name) || path.Clean("/"+name) != "/"+name || strings.Count(name, "/") != len(segments)+1 || len(name) > shardkit.MaxName {
		t.Fatalf("%q %q is %q", tenant, segments, name)
	}
	back, rest, err := shardkit.ParseName(name)
	if err != nil || back != tenant || !slices.Equal(rest, segments) {
		t.Fatalf("%q %q is %q, read as %q %q, %v", tenant, segments, name, back, rest, err)
	}
}

// plain: letters, digits and -._~%/ of ASCII, which no normalization touches and every store takes.
func plain(name string) bool {
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%/") == "" && name != ""
}

// TestNamesOfAllPairs goes through all that is tricky, as tenant and as segments.
func TestNamesOfAllPairs(t *testing.T) {
	seen := map[string][]string{}
	count := 0
	for _, tenant := range tricky {
		if !utf8.ValidString(tenant) {
			if _, err := shardkit.Name(tenant, "a"); !errors.Is(err, shardkit.ErrName) {
				t.Errorf("%q: %v", tenant, err)
			}
			continue
		}
		for _, first := range tricky {
			for _, rest := range append([]string{""}, tricky...) {
				segments := []string{first}
				if rest != "" {
					segments = append(segments, rest)
				}
				name, err := shardkit.Name(tenant, segments...)
				if err != nil {
					t.Fatal(err)
				}
				if other, ok := seen[name]; ok {
					t.Fatalf("%q is of %q %q, and of %q", name, tenant, segments, other)
				}
				seen[name] = append([]string{tenant}, segments...)
				checkName(t, tenant, segments, name)
				count++
			}
		}
	}
	t.Logf("%d names", count)
}

func TestNamesAreSpelledSo(t *testing.T) {
	for want, c := range map[string][]string{
		"tenants/acme/orders/1":         {"acme", "orders", "1"},
		"tenants/%C3%84rzte%2FN/a%20b":  {"Ärzte/N", "a b"},
		"tenants/%2E%2E/%2E/%2E%2E/...": {"..", ".", "..", "..."},
		"tenants/a%25/x%0A":             {"a%", "x\n"},
	} {
		if got, err := shardkit.Name(c[0], c[1:]...); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", c, got, err, want)
		}
	}
	// printf %s acme | sha256sum | xxd -r -p | base32 | tr -d = | tr A-Z a-z, and the same of tenants/acme/orders/1
	const want = "tenants/qivthlmhyfekbiqklot42xv4vjung2qy46vnczkvjeb7klfie5lq/drbuiki725y4f5jmdsejhuhocqiiurl6owh7q72atahlzsy6ofpa"
	if got, err := shardkit.CacheName("acme", "orders", "1"); err != nil || got != want {
		t.Errorf("cached as %q, %v; want %q", got, err, want)
	}
}

func TestNamesThatAreNone(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, c := range [][]string{{""}, {"", "a"}, {"acme"}, {"acme", ""}, {"acme", "a", ""}, {"acme", "", "a"}, {long + "x", "a"}, {"\xff", "a"}} {
		if name, err := shardkit.Name(c[0], c[1:]...); !errors.Is(err, shardkit.ErrName) || name != "" {
			t.Errorf("%q is %q, %v", c, name, err)
		}
		if name, err := shardkit.CacheName(c[0], c[1:]...); !errors.Is(err, shardkit.ErrName) || name != "" {
			t.Errorf("%q is cached as %q, %v", c, name, err)
		}
	}
	room := shardkit.MaxName - len("tenants/acme/")
	if name, err := shardkit.Name("acme", strings.Repeat("x", room)); err != nil || len(name) != 1024 {
		t.Errorf("the longest: %d bytes, %v", len(name), err)
	}
	if _, err := shardkit.Name("acme", strings.Repeat("x", room+1)); !errors.Is(err, shardkit.ErrName) {
		t.Errorf("longer: %v", err)
	}
	if _, err := shardkit.CacheName("acme", strings.Repeat("ä", 100000)); err != nil {
		t.Errorf("a long one in a cache: %v", err)
	}
	if name, err := shardkit.Name(strings.Repeat("\x00", 128), "a"); err != nil || len(name) != len("tenants//a")+3*128 {
		t.Errorf("the longest tenant: %q, %v", name, err)
	}
	if _, err := shardkit.Prefix(""); !errors.Is(err, shardkit.ErrName) {
		t.Errorf("nobody's prefix: %v", err)
	}
}

func TestTenantsNames(t *testing.T) {
	status(guarded(t, shardkit.Config{Items: holding("acme")}, func(_ http.ResponseWriter, r *http.Request) {
		who := shardkit.From(r.Context())
		got, err := who.Name("a", "..")
		cached, cacheErr := who.CacheName("a", "..")
		want, _ := shardkit.Name("acme", "a", "..")
		wantCached, _ := shardkit.CacheName("acme", "a", "..")
		if got != want || cached != wantCached || err != nil || cacheErr != nil {
			t.Errorf("%q, %v; %q, %v", got, err, cached, cacheErr)
		}
	}), sent())
}

// FuzzParseName holds that a name has one spelling, and that it is plain.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"tenants/acme/a", "tenants/%2E%2E/a", "tenants/../a", "tenants/a//b", "tenants/%41/b", "tenants/a/%2e", "tenants/a/b/", "TENANTS/a/b", "tenants/%FF/a", "tenants/a/%FF"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		tenant, segments, err := shardkit.ParseName(name)
		if err != nil {
			if tenant != "" || segments != nil || !errors.Is(err, shardkit.ErrName) {
				t.Fatalf("%q is read as %q %q, %v", name, tenant, segments, err)
			}
			return
		}
		again, err := shardkit.Name(tenant, segments...)
		if err != nil || again != name {
			t.Fatalf("%q is read as %q %q, which is named %q, %v", name, tenant, segments, again, err)
		}
		checkName(t, tenant, segments, name)
	})
}

// FuzzName holds that two pairs of segments have one name only if they are one.
func FuzzName(f *testing.F) {
	f.Add("acme", "a", "b", "acme", "a/b", "c")
	f.Add("..", ".", "a", "%2E%2E", "%2E", "a")
	f.Add("a", "\u00e4", "x", "a", "a\u0308", "x")
	f.Fuzz(func(t *testing.T, a, a1, a2, b, b1, b2 string) {
		an, err := shardkit.Name(a, a1, a2)
		if err != nil {
			return
		}
		checkName(t, a, []string{a1, a2}, an)
		if bn, err := shardkit.Name(b, b1, b2); err == nil && (an == bn) != (a == b && a1 == b1 && a2 == b2) {
			t.Fatalf("%q %q %q is %q, %q %q %q is %q", a, a1, a2, an, b, b1, b2, bn)
		}
	})
}
