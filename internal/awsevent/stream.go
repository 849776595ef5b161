package awsevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cellwall.dev/cellwall/internal/routing"
)

// StreamContentType is the media type of a streamed answer: its head as JSON, eight zero bytes, its body.
// Source: "Response streaming for Lambda functions", Lambda developer guide, and events.
// LambdaFunctionURLStreamingResponse of github.com/aws/aws-lambda-go.
const StreamContentType = "application/vnd.awslambda.http-integration-response"

// headerStream tells a slice that it may answer with a stream. A function cannot see by which call it is invoked.
const headerStream = "Cellwall-Stream"

// delimiter ends the head of a streamed answer. JSON holds no zero bytes.
var delimiter = make([]byte, 8)

// streamHead is what of an answer goes before its body.
type streamHead struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers,omitempty"`
	Cookies    []string          `json:"cookies,omitempty"`
}

// Stream is an answer on its way, for lambda.Start of github.com/aws/aws-lambda-go. A body that fails ends with
// an error, which Lambda passes on: the client sees an answer that broke off.
type Stream struct {
	head *bytes.Reader
	body io.ReadCloser
}

// FormatStream writes an answer for a Function URL with the invoke mode RESPONSE_STREAM, or for a slice that was
// asked for a stream. The answer's body may be a stream or not. method is the request's.
func FormatStream(method string, resp *routing.Response) *Stream {
	header, body := (&Event{Request: routing.Request{Method: method}}).whole(resp)
	s := &Stream{body: io.NopCloser(bytes.NewReader(body))}
	if resp.Stream != nil {
		header.Del("Content-Length") // of a body whose length nobody knows
		if s.body = resp.Stream; !hasBody(method, resp.Status) {
			s.body = closed{resp.Stream}
		}
	}
	head := streamHead{StatusCode: resp.Status}
	head.Headers, head.Cookies = joined(header)
	text, _ := marshal(head) // numbers and strings always encode
	s.head = bytes.NewReader(append(text, delimiter...))
	return s
}

// closed is a body of which nothing is read.
type closed struct{ io.Closer }

func (closed) Read([]byte) (int, error) { return 0, io.EOF }

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if s.head.Len() > 0 {
		return s.head.Read(p)
	}
	return s.body.Read(p)
}

// Close lets go of the body.
func (s *Stream) Close() error { return s.body.Close() }

// ContentType tells aws-lambda-go how Lambda is to read the stream.
func (s *Stream) ContentType() string { return StreamContentType }

// ReadAnswer reads what a slice answered that was asked for a stream: the head as soon as it is there, and the
// body as a stream. A slice that does not stream answers whole, and so is the response; only the delimiter tells them
// apart, which no whole answer holds. ReadAnswer closes the body unless the response has it.
func ReadAnswer(body io.ReadCloser) (*routing.Response, error) {
	resp, err := readAnswer(body)
	if err != nil || resp.Stream == nil {
		body.Close()
	}
	return resp, err
}

func readAnswer(body io.ReadCloser) (*routing.Response, error) {
	var read []byte
	chunk := make([]byte, 4<<10)
	for {
		n, err := body.Read(chunk)
		// The delimiter may have begun in what was read before.
		from := max(0, len(read)-len(delimiter)+1)
		read = append(read, chunk[:n]...)
		if i := bytes.Index(read[from:], delimiter); i >= 0 {
			return parseHead(read[:from+i], read[from+i+len(delimiter):], body)
		}
		switch {
		case errors.Is(err, io.EOF):
			return ParseAnswer(read)
		case err != nil:
			return nil, err
		case len(read) > routing.MaxBody:
			return routing.AnswerTooLarge(), nil
		}
	}
}

// parseHead reads the head; begun is what was read of the body with it.
func parseHead(text, begun []byte, body io.ReadCloser) (*routing.Response, error) {
	var head sliceAnswer
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("answer's head: %w", err)
	}
	resp, err := head.head()
	if err != nil {
		return nil, err
	}
	resp.Stream = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begun), body), body}
	return resp, nil
}
