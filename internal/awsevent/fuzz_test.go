package awsevent

import (
	"bytes"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
)

// seeds adds aws-lambda-go's samples and one event of each sender.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		payload, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	for _, sender := range awseventtest.Senders() {
		f.Add(sender.Event(awseventtest.Client{
			Method: "POST", Path: "/a%2Fb/%3F", Query: "a=1&b=%3A&a=", Body: []byte{0, 255}, Claims: `{"t":[1]}`,
			Header: [][2]string{{"Cookie", "a=1; b=2"}, {"X-A", "1"}, {"x-a", "2"}},
		}))
	}
}

// FuzzParse holds that what is read can be sent to a slice and read there as the same, that no path becomes a query,
// and that a refusal can be formatted for whoever sent the event.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := Parse(payload)
		if _, problem := e.Format(e.TooLarge()); problem != nil {
			t.Fatal(problem)
		}
		if err != nil {
			return
		}
		if strings.ContainsAny(e.Request.Path, "?# ") || !strings.HasPrefix(e.Request.Path, "/") {
			t.Fatalf("path %q", e.Request.Path)
		}
		if _, err := url.ParseRequestURI(e.Request.Path); err != nil {
			t.Fatalf("path %q: %v", e.Request.Path, err)
		}
		if (e.Kind == ALB || e.Kind == ALBMulti || e.Kind == REST) && strings.ContainsAny(e.Request.RawQuery, "# ") {
			t.Fatalf("query %q", e.Request.RawQuery)
		}
		e.Request.Header.Del("Cellwall-Stream") // as the engine does
		written, err := FormatRequest(&e.Request)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRequest(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if again.Method != e.Request.Method || again.Path != e.Request.Path || again.RawQuery != e.Request.RawQuery || !bytes.Equal(again.Body, e.Request.Body) {
			t.Fatalf("%+v became %+v", e.Request, again)
		}
	})
}

// FuzzAnswer holds that what a slice answers is refused or can be formatted for every sender, so that the client gets
// its status and its body.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"statusCode":200,"headers":{"Content-Type":"application/json","x-n":5},"cookies":["a=1"],"body":"AP8=","isBase64Encoded":true}`))
	f.Add([]byte(`{"statusCode":404,"body":"x"}`))
	f.Add([]byte(`{"errorMessage":"x","errorType":"Runtime.ExitError"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		resp, err := ParseAnswer(payload)
		if err != nil || resp.Status < 200 || resp.Status > 599 { // which the engine refuses
			return
		}
		for i, sender := range awseventtest.Senders() {
			e := Event{Kind: Kind(i)}
			written, err := e.Format(resp)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sender.Answer("GET", written)
			if err != nil {
				t.Fatalf("%s: %s: %v", sender.Name, written, err)
			}
			if got.Status != resp.Status || hasBody("GET", resp.Status) && !bytes.Equal(got.Body, resp.Body) {
				t.Fatalf("%s: %+v became %+v", sender.Name, resp, got)
			}
		}
	})
}

// FuzzStream holds that what a slice streams is refused, or read to its end: the head as it was written, and the body
// byte for byte.
func FuzzStream(f *testing.F) {
	f.Add([]byte(`{"statusCode":200,"headers":{"a":"b"},"cookies":["a=1"]}`), []byte("\x00body"))
	f.Add([]byte(`{"statusCode":599}`), []byte{})
	f.Add([]byte(`{"statusCode":200}`), make([]byte, 20))
	f.Fuzz(func(t *testing.T, head, body []byte) {
		stream := append(append(bytes.Clone(head), delimiter...), body...)
		resp, err := ReadAnswer(io.NopCloser(bytes.NewReader(stream)))
		if err != nil {
			return
		}
		if bytes.IndexByte(head, 0) >= 0 {
			t.Fatalf("head %q", head)
		}
		if got, err := io.ReadAll(resp.Stream); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%q, %v; want %q", got, err, body)
		}
	})
}
