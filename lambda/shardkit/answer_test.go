package shardkit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// TestAnswersThatAreNone are refused before the effect, with a key or without.
func TestAnswersThatAreNone(t *testing.T) {
	for name, a := range map[string]shardkit.Answer{
		"no status": {}, "1xx": {Status: 103}, "5xx": {Status: 500}, "421": {Status: 421}, "600": {Status: 600},
		"large":             {Status: 200, Body: make([]byte, shardkit.MaxAnswer+1)},
		"body of a 204":     {Status: 204, Body: []byte("x")},
		"large headers":     {Status: 200, Header: http.Header{"X": {strings.Repeat("x", shardkit.MaxAnswerHeader)}}},
		"line feed":         {Status: 200, Header: http.Header{"X": {"a\nb"}}},
		"not UTF-8":         {Status: 200, Header: http.Header{"X": {"\xff"}}},
		"name of no header": {Status: 200, Header: http.Header{"X\r\nY": {"a"}}},
	} {
		for _, key := range []string{"", "k"} {
			m := holding("acme")
			h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
				if err := shardkit.From(r.Context()).Commit(r.Context(), w, a, shardkit.Write{Key: "a"}); !errors.Is(err, shardkit.ErrAnswer) {
					t.Errorf("%s: %v", name, err)
				}
			})
			r := sent()
			if key != "" {
				r = keyed("POST", "/", key, "")
			}
			if got := status(h, r); got != 500 {
				t.Errorf("%s: answered %d", name, got)
			}
			if keys, _ := m.List(t.Context(), "acme", ""); len(keys) > 0 {
				t.Errorf("%s: written %q", name, keys)
			}
		}
	}
	largest := shardkit.Answer{Status: 200, Body: make([]byte, shardkit.MaxAnswer), Header: http.Header{"X": {strings.Repeat("<", shardkit.MaxAnswerHeader-1)}}}
	h := guarded(t, shardkit.Config{Items: holding("acme")}, func(w http.ResponseWriter, r *http.Request) {
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, largest, shardkit.Write{Key: "a"}); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, keyed("POST", "/", "k", "")); w.Code != 200 || w.Body.Len() != shardkit.MaxAnswer {
			t.Errorf("the largest answer: %d with %d bytes", w.Code, w.Body.Len())
		}
	}
}

// TestStreams: what a service sends on the way reaches the client then, and no effect comes after it.
func TestStreams(t *testing.T) {
	m := holding("acme")
	server := httptest.NewServer(guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: "a"}); !errors.Is(err, shardkit.ErrEnded) {
			t.Errorf("commit after the answer began: %v", err)
		}
		shardkit.Fail(w, shardkit.ErrEnded) // too late, and harmless
	}))
	defer server.Close()
	r, _ := http.NewRequest("GET", server.URL, nil)
	r.Header = sent().Header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(body) != "part" {
		t.Errorf("%d %q, %v", resp.StatusCode, body, err)
	}
	if keys, _ := m.List(t.Context(), "acme", ""); len(keys) > 0 {
		t.Errorf("written %q", keys)
	}
}

func TestNewGuardRefuses(t *testing.T) {
	for _, c := range []shardkit.Config{{}, {Items: holding(), Keep: time.Second}, {Items: holding(), Keep: -time.Hour}, {Items: holding(), MaxBody: -1}} {
		if _, err := shardkit.NewGuard(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
