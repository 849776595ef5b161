package shardkit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// TestARefusalForItsOwnEffect: a request is repeated while its first execution is under way in another process, which
// takes effect before the service looks at what the request is about. The refusal would be for what the client asked
// for, so that it gets the first answer; one that a Commit answers with, and any of a request without a key, stands.
func TestARefusalForItsOwnEffect(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		key    bool
		down   bool
		want   int
		body   string
	}{
		"412":                      {412, true, false, 201, "1"},
		"409":                      {409, true, false, 201, "1"},
		"421":                      {421, true, false, 421, "no"},
		"500":                      {500, true, false, 500, "no"},
		"412 without a key":        {412, false, false, 412, "no"},
		"412, store does not tell": {412, true, true, 503, ""},
	} {
		m := &unreadable{Memory: holding("acme")}
		first, _ := counter(t, m)
		request := func() *http.Request {
			r := keyed("PUT", "/", "k", "")
			if !test.key {
				r.Header.Del(shardkit.HeaderIdempotencyKey)
			}
			return r
		}
		second := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, _ *http.Request) {
			status(first, request())
			m.fail = test.down
			w.Header().Set("Etag", "another")
			w.WriteHeader(test.status)
			io.WriteString(w, "no")
			http.NewResponseController(w).Flush()
		})
		got := httptest.NewRecorder()
		got.Header().Set("X-Around", "kept")
		second.ServeHTTP(got, request())
		replayed := test.want == 201
		if got.Code != test.want || test.body != "" && got.Body.String() != test.body || got.Header().Get("X-Around") != "kept" ||
			(got.Header().Get(shardkit.HeaderReplayed) == "true") != replayed || replayed && got.Header().Get("Etag") != "" {
			t.Errorf("%s: answered %d %q %v, want %d", name, got.Code, got.Body, got.Header(), test.want)
		}
	}
}

// TestACommittedRefusalStands: an effect that is answered with a refusal is no repeat.
func TestACommittedRefusalStands(t *testing.T) {
	h := guarded(t, shardkit.Config{Items: holding("acme")}, func(w http.ResponseWriter, r *http.Request) {
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, shardkit.Answer{Status: 409}, shardkit.Write{Key: "noted"}); err != nil {
			t.Error(err)
		}
	})
	for i, want := range []string{"", "true"} {
		got := httptest.NewRecorder()
		h.ServeHTTP(got, keyed("POST", "/", "k", ""))
		if got.Code != 409 || got.Header().Get(shardkit.HeaderReplayed) != want {
			t.Errorf("request %d: %d %v", i, got.Code, got.Header())
		}
	}
}
