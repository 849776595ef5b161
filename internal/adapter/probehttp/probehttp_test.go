package probehttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/rollout/probe"
)

var fleet = []string{"eu-canary", "eu-1"}

// file writes the probe's file.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestSend is of what a cell may answer, over a server.
func TestSend(t *testing.T) {
	var asked []string
	status, elsewhere := http.StatusOK, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL, r.Header.Get("Authorization")))
		if r.URL.Path == "/elsewhere" {
			elsewhere = true
		}
		if status == http.StatusFound {
			http.Redirect(w, r, "/elsewhere", status)
			return
		}
		w.WriteHeader(status)
		w.Write([]byte(strings.Repeat("x", 1<<20)))
	}))
	t.Cleanup(server.Close)
	name := file(t, fmt.Sprintf(`{"eu-1": {"url": %q, "tokens": ["t.1", "t.2"]}}`, server.URL+"/base/"))
	s, err := New(name, "/up?deep=1", fleet)
	if err != nil || fmt.Sprint(s.Cells()) != "[eu-1]" {
		t.Fatal(s, err)
	}
	for code, want := range map[int]string{200: "", 204: "", 299: "", 302: "probe of cell eu-1: it answers 302", 404: "probe of cell eu-1: it answers 404", 500: "probe of cell eu-1: it answers 500",
		401: "the probe could not ask: cell eu-1 answers 401: it does not take the test tenant's token", 403: "the probe could not ask: cell eu-1 answers 403: it does not take the test tenant's token"} {
		status = code
		if err := s.Send(t.Context(), "eu-1"); fmt.Sprint(err) != want && (err != nil || want != "") || errors.Is(err, probe.ErrUnsent) != strings.Contains(want, "could not ask") {
			t.Errorf("%d: %v", code, err)
		}
	}
	if elsewhere {
		t.Error("a redirect is followed, with a token")
	}
	slices.Sort(asked)
	if got := slices.Compact(asked); fmt.Sprint(got) != "[GET /base/up?deep=1 Bearer t.1 GET /base/up?deep=1 Bearer t.2]" {
		t.Error(got)
	}
	// The file is what it is now.
	if err := os.WriteFile(name, []byte(`{"eu-canary": {"url": "https://x", "tokens": ["t"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), "eu-1"); !errors.Is(err, probe.ErrUnsent) || !strings.HasSuffix(err.Error(), "it does not name cell eu-1 any more") {
		t.Error(err)
	}
	os.Remove(name)
	if err := s.Send(t.Context(), "eu-1"); !errors.Is(err, probe.ErrUnsent) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestSendToNobody: a cell that does not answer fails, without a word of the token.
func TestSendToNobody(t *testing.T) {
	server := httptest.NewServer(nil)
	address := server.URL
	server.Close()
	s, err := New(file(t, fmt.Sprintf(`{"eu-1": {"url": %q, "tokens": ["secret-token"]}}`, address)), "/", fleet)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), "eu-1"); err == nil || errors.Is(err, probe.ErrUnsent) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestFiles is of files that are refused: none of what is said has a token.
func TestFiles(t *testing.T) {
	form := `it is not of the form {"CELL": {"url": "https://…", "tokens": ["…"]}}, near byte `
	for text, want := range map[string]string{
		``:                          form + "0",
		`secret`:                    form,
		`["secret"]`:                form,
		`{"eu-1": "secret"}`:        form,
		`{"eu-1": {"secret": "x"}}`: form,
		`{} "secret"`:               form,
		`{}`:                        "it names no cell",
		`null`:                      "it names no cell",
		`{"secret!": {}}`:           "it has a name that no cell can have",
		`{"eu-2": {"url": "https://x", "tokens": ["secret"]}}`:          `it names cell "eu-2", which the fleet does not have`,
		`{"eu-1": {"url": "https://x"}}`:                                "cell eu-1 has 0 tokens; it needs 1 to 1000",
		`{"eu-1": {"url": "https://x", "tokens": ["secret\r\nX: 1"]}}`:  "cell eu-1: token 1 is none that a header could carry (RFC 6750)",
		`{"eu-1": {"url": "https://x", "tokens": [""]}}`:                "cell eu-1: token 1 is none that a header could carry (RFC 6750)",
		`{"eu-1": {"url": "https://secret:secret@x", "tokens": ["a"]}}`: "cell eu-1: its url is not of the form https://HOST, with a path at most",
		`{"eu-1": {"url": "https://x?secret", "tokens": ["a"]}}`:        "cell eu-1: its url is not of the form https://HOST, with a path at most",
		`{"eu-1": {"url": "https://x\u0000secret", "tokens": ["a"]}}`:   "cell eu-1: its url is not of the form https://HOST, with a path at most",
		`{"eu-1": {"url": "", "tokens": ["a"]}}`:                        "cell eu-1: its url is not of the form https://HOST, with a path at most",
		`{"eu-1": {"url": "http://x", "tokens": ["secret"]}}`:           "cell eu-1: its url must begin with https://: a token must not be sent in the clear",
		`{"eu-1": {"url": "http://localhost.x", "tokens": ["secret"]}}`: "cell eu-1: its url must begin with https://: a token must not be sent in the clear",
		`{"eu-1": {"url": "file://x/secret", "tokens": ["secret"]}}`:    "cell eu-1: its url must begin with https://: a token must not be sent in the clear",
		strings.Repeat(" ", mostFile) + `{"secret": 1}`:                 "it has more than 1048576 bytes",
		strings.Repeat(`{"secret":`, 100_000):                           form,
	} {
		_, err := New(file(t, text), "/", fleet)
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: %v; want %s", text, err, want)
		}
	}
	readable := file(t, `{"eu-1": {"url": "https://x", "tokens": ["secret"]}}`)
	if err := os.Chmod(readable, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{readable: "others may read it, and it has tokens: chmod 600 it", t.TempDir(): "it is no file", "/nowhere/at/all": "no such file"} {
		if _, err := New(name, "/", fleet); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(readable, "up", fleet); err == nil || err.Error() != `the probe's path is "up": it must begin with /` {
		t.Error(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, target{tokens: []token{func() string { return "secret" }}}); strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
}

// TestAddress: an ingress and a path make an address of that ingress, whatever the path holds.
func TestAddress(t *testing.T) {
	for path, want := range map[string]string{"/": "https://h:1/b/", "/a%2Fb?c=d": "https://h:1/b/a%2Fb?c=d", "//evil/x": "https://h:1/b//evil/x", "/x#y": "https://h:1/b/x", "/../up": "https://h:1/b/../up", "/@evil": "https://h:1/b/@evil"} {
		u, err := (&Sender{path: path}).address("https://h:1/b/")
		if err != nil || u.String() != want || u.Host != "h:1" {
			t.Errorf("%s: %v, %v; want %s", path, u, err, want)
		}
	}
	for _, base := range []string{"http://127.0.0.1:80", "http://[::1]", "http://localhost:8080"} {
		if _, err := (&Sender{path: "/"}).address(base); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}
