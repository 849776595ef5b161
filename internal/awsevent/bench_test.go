package awsevent

import (
	"bytes"
	"net/http"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/routing"
)

// BenchmarkParseFormat is what the router does to an event of 1 KB beside routing: read it, write what goes to the
// slice, read the slice's answer of 1 KB, and write the sender's.
func BenchmarkParseFormat(b *testing.B) {
	resp := &routing.Response{Status: 200, Body: bytes.Repeat([]byte("answer, "), 100), Header: http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "Set-Cookie": {"a=1"},
	}}
	for i, sender := range awseventtest.Senders() {
		payload := sender.Event(awseventtest.Client{
			Method: "POST", Path: "/orders/42", Query: "a=1&b=2", Body: []byte(`{"item":"x","n":1}`),
			Header: [][2]string{{"Content-Type", "application/json"}, {"Accept", "*/*"}, {"User-Agent", "curl/8.5.0"}, {"Authorization", "Bearer " + string(bytes.Repeat([]byte("x"), 200))}},
			Claims: `{"tenant_id":"acme","iss":"https://login.example.com/","aud":"orders"}`,
		})
		answer, err := FormatAnswer("POST", resp)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(sender.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				e, err := Parse(payload)
				if err != nil || e.Kind != Kind(i) {
					b.Fatal(err)
				}
				if _, err := FormatRequest(&e.Request); err != nil {
					b.Fatal(err)
				}
				resp, err := ParseAnswer(answer)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := e.Format(resp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
