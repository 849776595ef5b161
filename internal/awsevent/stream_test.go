package awsevent

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/routing"
)

// body is a stream that notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// TestStreamForm is the answer byte for byte, as aws-lambda-go's LambdaFunctionURLStreamingResponse writes it.
func TestStreamForm(t *testing.T) {
	b := &body{Reader: strings.NewReader("body\x00\x00")}
	s := FormatStream("GET", &routing.Response{Status: 201, Stream: b, Header: http.Header{
		"X-Several": {"one", "two"}, "Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"7"},
	}})
	got, err := io.ReadAll(iotest.OneByteReader(s))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"statusCode":201,"headers":{"x-several":"one,two"},"cookies":["a=1","b=2"]}` + strings.Repeat("\x00", 8) + "body\x00\x00"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if s.ContentType() != "application/vnd.awslambda.http-integration-response" {
		t.Errorf("type %s", s.ContentType())
	}
	if s.Close() != nil || !b.closed {
		t.Error("the body was not closed")
	}
}

// TestStreamOfAWholeAnswer: a function behind a streaming Function URL answers everything so, refusals, too.
func TestStreamOfAWholeAnswer(t *testing.T) {
	problem := routing.Problem(404, "x")
	for method, want := range map[string]string{"GET": string(problem.Body), "HEAD": ""} {
		got, err := ReadAnswer(io.NopCloser(FormatStream(method, problem)))
		if err != nil || got.Status != 404 || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%+v, %v", got, err)
		}
		text, err := io.ReadAll(got.Stream)
		if err != nil || string(text) != want {
			t.Errorf("%s: %q, %v; want %q", method, text, err, want)
		}
	}
}

// TestHeadOfAStreamHasNoBody: nothing is read of a stream that must not be sent, and it is closed.
func TestHeadOfAStreamHasNoBody(t *testing.T) {
	b := &body{Reader: iotest.ErrReader(errors.New("read"))}
	s := FormatStream("HEAD", &routing.Response{Status: 200, Stream: b})
	got, err := io.ReadAll(s)
	if err != nil || !bytes.HasSuffix(got, delimiter) {
		t.Errorf("%q, %v", got, err)
	}
	if s.Close(); !b.closed {
		t.Error("the body was not closed")
	}
}

// TestReadAnswer reads a stream however it is cut, and its body only as it comes.
func TestReadAnswer(t *testing.T) {
	text := `{"statusCode":200,"headers":{"x-a":"b","x-n":5},"cookies":["a=1"]}` + strings.Repeat("\x00", 8) + "\x00body"
	for name, cut := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "by halves": iotest.HalfReader, "with the end": iotest.DataErrReader} {
		b := &body{Reader: cut(strings.NewReader(text))}
		got, err := ReadAnswer(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		read, err := io.ReadAll(got.Stream)
		if err != nil || string(read) != "\x00body" || got.Status != 200 || got.Header.Get("X-A") != "b" || got.Header.Get("X-N") != "5" || got.Header.Get("Set-Cookie") != "a=1" || got.Body != nil {
			t.Errorf("%s: %+v with %q, %v", name, got, read, err)
		}
		if b.closed {
			t.Errorf("%s: the body was closed by who does not have it", name)
		}
		if got.Stream.Close(); !b.closed {
			t.Errorf("%s: the body was not closed", name)
		}
	}
	// The head is there before the body is made.
	r, w := io.Pipe()
	go io.WriteString(w, text[:len(text)-5])
	got, err := ReadAnswer(r)
	if err != nil || got.Status != 200 {
		t.Errorf("%+v, %v", got, err)
	}
	w.CloseWithError(errors.New("broke"))
	if _, err := io.ReadAll(got.Stream); err == nil {
		t.Error("a body that broke off ends well")
	}
}

// TestReadWholeAnswer: a slice that does not stream, though it may, answers as ever.
func TestReadWholeAnswer(t *testing.T) {
	b := &body{Reader: iotest.HalfReader(strings.NewReader(`{"statusCode":201,"body":"AP8=","isBase64Encoded":true}`))}
	got, err := ReadAnswer(b)
	if err != nil || got.Status != 201 || string(got.Body) != "\x00\xff" || got.Stream != nil || !b.closed {
		t.Errorf("%+v, closed %t, %v", got, b.closed, err)
	}
	got, err = ReadAnswer(io.NopCloser(ones{}))
	if err != nil || got.Status != 500 || !strings.Contains(string(got.Body), routing.TypeAnswerTooLarge) {
		t.Errorf("too much: %v, %v", got, err)
	}
}

// TestBrokenHeads are no answers, and let go of the connection.
func TestBrokenHeads(t *testing.T) {
	end := strings.Repeat("\x00", 8)
	broke := errors.New("broke")
	for name, r := range map[string]io.Reader{
		"nothing": strings.NewReader(""), "no end": strings.NewReader(`{"statusCode":200`), "half an end": strings.NewReader(`{"statusCode":200}` + end[1:]),
		"no JSON": strings.NewReader("x" + end), "no status": strings.NewReader("{}" + end), "a wrong status": strings.NewReader(`{"statusCode":7}` + end),
		"a wrong header": strings.NewReader(`{"statusCode":200,"headers":{"a":[]}}` + end),
		"breaks":         io.MultiReader(strings.NewReader(`{"statusCode":200}`), iotest.ErrReader(broke)),
	} {
		b := &body{Reader: r}
		if got, err := ReadAnswer(b); err == nil || !b.closed || name == "breaks" && !errors.Is(err, broke) {
			t.Errorf("%s: %+v, closed %t, %v", name, got, b.closed, err)
		}
	}
}

type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}
