package routing

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func drawID(t *rapid.T, label string) string {
	id := rapid.StringN(1, 128, 128).Draw(t, label)
	return id
}

func TestTenantHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t, "id")
		header := EncodeTenant(id)
		if len(header) > 384 || !printable(header) || strings.Trim(header, " ") != header {
			t.Fatalf("%q is encoded as %q", id, header)
		}
		got, err := DecodeTenant(header)
		if err != nil || got != id {
			t.Fatalf("%q → %q → %q, %v", id, header, got, err)
		}
	})
}

func TestDecodeTenantRefuses(t *testing.T) {
	for _, header := range []string{
		"", "%", "%4", "%41", "a%2fb", "a b", "a/b", "ü", "%FF", "%GG", "a%", "a,b", "%C3%BC%", strings.Repeat("a", 129), "a\x00",
	} {
		if got, err := DecodeTenant(header); err == nil {
			t.Errorf("%q is read as %q", header, got)
		}
	}
}

// FuzzDecodeTenant holds that a tenant has one spelling.
func FuzzDecodeTenant(f *testing.F) {
	for _, seed := range []string{"acme", "%C3%BC", "a%20b", "%41", "%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		id, err := DecodeTenant(header)
		if err != nil {
			return
		}
		if EncodeTenant(id) != header || !utf8.ValidString(id) {
			t.Fatalf("%q is read as %q, which is written %q", header, id, EncodeTenant(id))
		}
	})
}

func TestTenantFromClaim(t *testing.T) {
	good := map[string]string{
		`"acme"`: "acme", `"a\u0000b"`: "a\x00b", `"\u00e4"`: "ä", `"ä"`: "ä", `"\ud83d\udd12"`: "\U0001F512", `" a "`: " a ",
		`"a]"`: "a]", `"[a"`: "[a", `"a,b"`: "a,b", `"42"`: "42", `"` + strings.Repeat("n", 128) + `"`: strings.Repeat("n", 128),
	}
	for claim, want := range good {
		if got, err := TenantFromClaim(json.RawMessage(claim)); err != nil || got != want {
			t.Errorf("%s is read as %q, %v", claim, got, err)
		}
	}
	bad := map[string]error{
		"": errClaimMissing, "null": errClaimMissing,
		"42": errClaimType, "true": errClaimType, `{"a":"b"}`: errClaimType, `"open`: errClaimType,
		`["acme"]`: errClaimSeveral, `["a","b"]`: errClaimSeveral, `[]`: errClaimSeveral, `"[a b]"`: errClaimSeveral, `"[acme]"`: errClaimSeveral, `"[]"`: errClaimSeveral,
		`""`: errClaimValue, `"` + strings.Repeat("n", 129) + `"`: errClaimValue, "\"a\xff\"": errClaimValue,
		`"\ud800"`: errClaimValue, `"\udc00x"`: errClaimValue, "\"\ufffd\"": errClaimValue,
	}
	for claim, want := range bad {
		got, err := TenantFromClaim(json.RawMessage(claim))
		if got != "" || !errors.Is(err, want) || !errors.Is(err, ErrToken) {
			t.Errorf("%q is read as %q, %v; want %v", claim, got, err, want)
		}
	}
}

func TestJobRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := &Request{
			Method: "POST", Path: "/jobs/" + EncodeTenant(drawID(t, "path")), RawQuery: "a=1",
			Header: map[string][]string{"Content-Type": {"text/plain"}, "Authorization": {"Bearer secret"}},
			Body:   rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		call := Call{Tenant: drawID(t, "tenant"), Epoch: rapid.Uint64().Draw(t, "epoch"), Shard: "s03"}
		message, err := json.Marshal(NewJob(call, req))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(message), "secret") {
			t.Fatal("the client's token waits in the queue")
		}
		for _, c := range string(message) {
			if c >= 0x7f {
				t.Fatalf("message %s is not plain text", message)
			}
		}
		job, err := ParseJob(message)
		if err != nil {
			t.Fatal(err)
		}
		got := job.Request()
		if got.Method != req.Method || got.Path != req.Path || got.RawQuery != req.RawQuery || string(got.Body) != string(req.Body) ||
			got.Header.Get(HeaderTenant) != EncodeTenant(call.Tenant) || got.Header.Get(HeaderShard) != "s03" || got.Header.Get("Content-Type") != "text/plain" {
			t.Fatalf("job of %+v for %+v became %+v", req, call, got)
		}
	})
}

func TestParseJobRefuses(t *testing.T) {
	for _, message := range []string{
		``, `{`, `[]`, `{}`, `{"id":"j","tenant":"","method":"POST","path":"/x"}`, `{"id":"j","tenant":"a b","method":"POST","path":"/x"}`,
		`{"id":"","tenant":"a","method":"POST","path":"/x"}`, `{"id":"j","tenant":"a","method":"","path":"/x"}`, `{"id":"j","tenant":"a","method":"POST","path":"x"}`,
		`{"id":"j","tenant":"a","method":"POST","path":"/x","epoch":-1}`, `{"id":"j","tenant":"a","method":"POST","path":"/x","body":"!"}`,
	} {
		if _, err := ParseJob([]byte(message)); err == nil {
			t.Errorf("%s is accepted", message)
		}
	}
}

// TestKeyedJobsHaveOneID: a repeat names the job of the first sending, wherever that waits; anything else is another job.
func TestKeyedJobsHaveOneID(t *testing.T) {
	job := func(change func(*Call, *Request)) string {
		call := Call{Tenant: "acme", Epoch: 3, Shard: "s01"}
		req := &Request{Method: "POST", Path: "/jobs/1", RawQuery: "a=b", Body: []byte("work"), Header: http.Header{HeaderIdempotencyKey: {"k1"}}}
		change(&call, req)
		j := NewJob(call, req)
		if _, err := j.Encode(); err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	first := job(func(*Call, *Request) {})
	// printf '%s\n%s\n%s\n%s\n%s\n%s' acme k1 POST /jobs/1 a=b "$(printf work | sha256sum | cut -c1-64)" |
	//	openssl dgst -sha256 -binary | base32 -w0 | tr -d = | tr A-Z a-z
	if want := "2hi2uthklucweaen4anhapt7nmrynf3z5dhisgusahvnpte5yroa"; first != want {
		t.Errorf("id %s, want %s", first, want)
	}
	for name, change := range map[string]func(*Call, *Request){
		"another shard and epoch": func(c *Call, _ *Request) { c.Epoch, c.Shard = 4, "s02" },
		"other headers":           func(_ *Call, r *Request) { r.Header["X-Request-Id"] = []string{"r2"} },
		"spaces around the key":   func(_ *Call, r *Request) { r.Header[HeaderIdempotencyKey] = []string{" k1\t"} },
	} {
		if id := job(change); id != first {
			t.Errorf("%s: id %s, and %s at first", name, id, first)
		}
	}
	seen := map[string]string{first: "the first"}
	for name, change := range map[string]func(*Call, *Request){
		"tenant":    func(c *Call, _ *Request) { c.Tenant = "beta" },
		"key":       func(_ *Call, r *Request) { r.Header[HeaderIdempotencyKey] = []string{"k2"} },
		"quoted":    func(_ *Call, r *Request) { r.Header[HeaderIdempotencyKey] = []string{`"k1"`} },
		"method":    func(_ *Call, r *Request) { r.Method = "PATCH" },
		"path":      func(_ *Call, r *Request) { r.Path = "/jobs/2" },
		"query":     func(_ *Call, r *Request) { r.RawQuery = "" },
		"body":      func(_ *Call, r *Request) { r.Body = nil },
		"no key":    func(_ *Call, r *Request) { r.Header = http.Header{} },
		"no, again": func(_ *Call, r *Request) { r.Header = http.Header{} },
	} {
		id := job(change)
		if was := seen[id]; was != "" {
			t.Errorf("%s: the id of %s", name, was)
		}
		seen[id] = name
	}
}
