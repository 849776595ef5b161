package cli

import (
	"os"
	"strings"
	"testing"
)

func TestBars(t *testing.T) {
	ascii := barsFor(&strings.Builder{})
	for share, want := range map[float64]string{
		0: "....................", 1e-9: "....................", 0.005: "#...................", 0.5: "##########..........",
		0.999: "###################.", 1: "####################", 7: "####################",
	} {
		if got := ascii.bar(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if b := barsFor(file); b.full != "#" {
		t.Errorf("a file gets %q", b.full)
	}
}

func TestUTF8Locale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "en_GB.UTF-8", true}, {"", "", "de_DE.utf8", true}, {"", "", "C", false}, {"", "", "", false},
		{"C", "", "en_GB.UTF-8", false}, {"", "C.UTF-8", "C", true},
	} {
		got := utf8Locale(func(name string) string {
			return map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}[name]
		})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7: "7", 0.25: "0.25", 99.94: "99.9", 100.4: "100", 1234.4: "1,234", 20000: "20,000", 1234567: "1,234,567", 1e18: "1e+18"} {
		if got := grouped(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0.00 %", 0.1234: "12.34 %", 1e-6: "1.0e-04 %", 12.5: "1,250 %"} {
		if got := percentage(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
