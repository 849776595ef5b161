package routing

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
)

// TestKeysAreReadAsTheDraftHasThem: exactly one string, or one bare key as most clients send it, or the client is told
// so before anything is done.
func TestKeysAreReadAsTheDraftHasThem(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	for _, test := range []struct {
		header http.Header
		has    bool
		err    error
	}{
		{nil, false, nil},
		{http.Header{"Idempotency-Key": {}}, false, nil},
		{http.Header{"X-Idempotency-Key": {"k"}, "Idempotency-Keys": {"k"}}, false, nil},
		{http.Header{"Idempotency-Key": {`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}}, true, nil},
		{http.Header{"Idempotency-Key": {` "k" `}}, true, nil},
		{http.Header{"Idempotency-Key": {`"a \"b\" \\c"`}}, true, nil},
		{http.Header{"idempotency-key": {`"k"`}}, true, nil},
		{http.Header{"Idempotency-Key": {`"` + long + `"`}}, true, nil},
		{http.Header{"Idempotency-Key": {`"` + long + `k"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"8e03978e-40d5-43dd-bc93-6894a57f9324"}}, true, nil},
		{http.Header{"Idempotency-Key": {" KG5LxwFBepaKHyUD\t"}}, true, nil},
		{http.Header{"Idempotency-Key": {"!#$%&'()*+-./:;<=>?@[\\]^_`{|}~"}}, true, nil},
		{http.Header{"Idempotency-Key": {long}}, true, nil},
		{http.Header{"Idempotency-Key": {long + "k"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"a,b"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"a, b"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"a b"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`a"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"a\x7f"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"ü"}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"a", "b"}}, false, errKeySeveral},
		{http.Header{"Idempotency-Key": {""}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`""`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a"b"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a\"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a\n"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {"\"a\tb\""}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"ü"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a";p=1`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a", "b"`}}, false, errKeyMalformed},
		{http.Header{"Idempotency-Key": {`"a"`, `"b"`}}, false, errKeySeveral},
		{http.Header{"Idempotency-Key": {`"a"`, `"a"`}}, false, errKeySeveral},
		{http.Header{"Idempotency-Key": {`"a"`}, "Idempotency_Key": {`"b"`}}, false, errKeySeveral},
		{http.Header{"Idempotency_Key": {`"a"`}}, false, errKeyStays},
		{http.Header{"Idempotency-Key": {`"a"`}, "Connection": {"Idempotency-Key"}}, false, errKeyStays},
		{http.Header{"Idempotency-Key": {`"a"`}, "Connection": {"keep-alive"}}, true, nil},
	} {
		if has, err := keyed(test.header); has != test.has || err != test.err {
			t.Errorf("%q: %t, %v; want %t, %v", test.header, has, err, test.has, test.err)
		}
	}
	// RFC 9651, section 3.3.3, in other words, or visible characters without quotes and commas.
	grammar := regexp.MustCompile(`^[ \t]*(?:"(?:[ !#-\[\]-~]|\\["\\])+"|[!#-+\--~]+)[ \t]*$`)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ "\\]?("([ -~]|\\["\\]){0,5}"?|[ -~]{0,4})[" \t]?`).Draw(t, "value")
		if got, want := validKey(value), grammar.MatchString(value); got != want {
			t.Fatalf("%q is valid: %t, want %t", value, got, want)
		}
	})
}

// TestKeysMatterWhereTheyAreKept: a key means something where the service keeps its record, for the methods that
// are not idempotent by themselves.
func TestKeysMatterWhereTheyAreKept(t *testing.T) {
	for _, kept := range []bool{false, true} {
		for _, state := range []State{"", StateNone, StateCell, StateHome} {
			if kept && state == StateHome {
				continue // New refuses it
			}
			for _, key := range []string{"", `"k"`, "k", "k,l"} {
				for _, method := range []string{"GET", "PUT", "POST", "PATCH", "BREW"} {
					sent := 0
					c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(_ context.Context, _ Call, req *Request) (*Response, error) {
						sent++
						if got := req.Header.Get("Idempotency-Key"); got != key {
							t.Errorf("the shard gets the key %q, want %q", got, key)
						}
						return nil, errBroken
					}))
					c.State, c.IdempotencyKeys = state, kept
					req := &Request{Method: method, Path: "/x", Header: http.Header{}}
					if key != "" {
						req.Header.Set("Idempotency-Key", key)
					}
					resp := newEngine(t, c).Serve(t.Context(), "acme", req)
					want, status := 1, 502
					counts := kept && (method == "POST" || method == "PATCH")
					switch {
					case counts && key == "k,l":
						want, status = 0, 400
					case state == StateHome:
					case method == "GET" || method == "PUT" || counts && key != "":
						want = 2
					}
					if sent != want || resp.Status != status {
						t.Errorf("kept %t, state %q, %s with key %s: sent %d times, answered %d; want %d, %d", kept, state, method, key, sent, resp.Status, want, status)
					}
					if counts && (key == `"k"` || key == "k") && !strings.Contains(string(resp.Body), "with the same Idempotency-Key") {
						t.Errorf("the client is told %s", resp.Body)
					}
				}
			}
		}
	}
}

// TestAShardsWordOnKeysIsFinal: what it says of a key that is in use, or was used for something else, is what the
// client hears.
func TestAShardsWordOnKeysIsFinal(t *testing.T) {
	for _, status := range []int{400, 409, 422} {
		sent := 0
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
			sent++
			return &Response{Status: status, Body: []byte("why")}, nil
		}))
		c.IdempotencyKeys = true
		resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x", Header: http.Header{"Idempotency-Key": {`"k"`}}})
		if resp.Status != status || string(resp.Body) != "why" || sent != 1 {
			t.Errorf("the shard's %d is answered %d %s after %d sendings", status, resp.Status, resp.Body, sent)
		}
	}
}

// TestRequestIDs: the client's is kept when it is one that nobody can misread, and everybody is told the same.
func TestRequestIDs(t *testing.T) {
	for given, want := range map[string]string{
		"4bf92f35-77b3/4da6:a3ce=+_.~": "4bf92f35-77b3/4da6:a3ce=+_.~", strings.Repeat("a", 128): strings.Repeat("a", 128),
		"": "r1", strings.Repeat("a", 129): "r1", "a b": "r1", "a\nb": "r1", "ü": "r1", `a"b`: "r1", "a,b": "r1", "<a>": "r1", "two": "r1",
	} {
		var shard string
		c := testConfig(fixed{"acme": pinned("acme", "s01")}, sender(func(_ context.Context, _ Call, req *Request) (*Response, error) {
			shard = req.Header.Get("X-Request-Id")
			if got := req.Header["Traceparent"]; len(got) != 1 || got[0] != "00-t" {
				t.Errorf("traceparent %q", got)
			}
			return &Response{Status: 200, Header: http.Header{"X-Request-Id": {"the shard's"}}}, nil
		}))
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		e := newEngine(t, c)
		req := &Request{Method: "GET", Path: "/x", Header: http.Header{"Traceparent": {"00-t"}, "X-Request-Id": {given}}}
		if given == "two" {
			req.Header["X-Request-Id"] = []string{"a", "b"}
		}
		resp := e.Serve(t.Context(), "acme", req)
		refused := e.Serve(t.Context(), "mallory", req)
		for _, got := range []string{shard, resp.Header.Get("X-Request-Id"), refused.Header.Get("X-Request-Id"), seen.RequestID} {
			if got != want {
				t.Errorf("%q: somebody is told %q, want %q", given, got, want)
			}
		}
	}
	c := testConfig(fixed{}, naming)
	c.NewID = nil
	e := newEngine(t, c)
	ids := map[string]bool{}
	for range 100 {
		ids[e.Serve(t.Context(), "mallory", get("/x")).Header.Get("X-Request-Id")] = true
	}
	if len(ids) != 100 || ids[""] {
		t.Errorf("%d ids for 100 requests", len(ids))
	}
}

// TestAKeyThatDoesNotTravelAllowsNoRepeat: what the shard does not get as the key is none, however it is spelled, and
// a POST is not sent again for it.
func TestAKeyThatDoesNotTravelAllowsNoRepeat(t *testing.T) {
	const key = `"8e03978e"`
	for name, header := range map[string]http.Header{
		"an underscore":          {"Idempotency_Key": {key}},
		"lower case, underscore": {"idempotency_key": {key}},
		"both spellings":         {"Idempotency-Key": {key}, "Idempotency_Key": {key}},
		"named by Connection":    {"Idempotency-Key": {key}, "Connection": {"close, idempotency-key"}},
		"named with underscore":  {"Idempotency-Key": {key}, "Connection": {"Idempotency_Key"}},
		"named in lower case":    {"Idempotency-Key": {key}, "connection": {"keep-alive", "Idempotency-Key"}},
		"in lower case":          {"idempotency-key": {key}},
		"as it should be":        {"Idempotency-Key": {key}},
	} {
		sent, without := 0, 0
		c := testConfig(lookup(func(string) (directory.Entry, error) { return pinned("acme", "s01", "s02"), nil }),
			sender(func(_ context.Context, _ Call, req *Request) (*Response, error) {
				sent++
				if got := req.Header.Values(HeaderIdempotencyKey); len(got) != 1 || got[0] != key {
					without++
				}
				return nil, errors.New("reset")
			}))
		c.IdempotencyKeys = true
		resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/orders", Header: header, Body: []byte("x")})
		if sent > 1 && without > 0 {
			t.Errorf("%s: a POST was sent %d times, %d of them without the key; answered %d", name, sent, without, resp.Status)
		}
		if well := name == "as it should be" || name == "in lower case"; well != (sent == 2) || !well && resp.Status != 400 {
			t.Errorf("%s: sent %d times, answered %d", name, sent, resp.Status)
		}
	}
}
