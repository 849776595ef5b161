package routing

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Whole reads a stream that must not stay one, and makes the answer a whole one. The error says that the body
// broke off; an answer of more than MaxBody becomes AnswerTooLarge.
func Whole(resp *Response) (*Response, error) {
	if resp.Stream == nil {
		return resp, nil
	}
	defer resp.Stream.Close()
	length, _ := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64)
	body, err := ReadBody(io.LimitReader(resp.Stream, MaxBody+1), length)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > MaxBody:
		return AnswerTooLarge(), nil
	}
	return &Response{Status: resp.Status, Header: resp.Header, Body: body}, nil
}

// ReadBody reads a body to its end, which should be so many bytes long; 0 and less says that nobody knows. What was
// announced saves copies and is not believed: it may be wrong, or of a body that is not sent (HEAD).
func ReadBody(r io.Reader, announced int64) ([]byte, error) {
	const most = 64 << 10
	room := make([]byte, 0, max(0, min(announced, most))+bytes.MinRead)
	b := bytes.NewBuffer(room)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
