package routing

import (
	"fmt"
	"io"
)

// Whole reads a stream that must not stay one, and makes the answer a whole one. The error says that the body
// broke off; an answer of more than MaxBody becomes AnswerTooLarge.
func Whole(resp *Response) (*Response, error) {
	if resp.Stream == nil {
		return resp, nil
	}
	defer resp.Stream.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Stream, MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > MaxBody:
		return AnswerTooLarge(), nil
	}
	return &Response{Status: resp.Status, Header: resp.Header, Body: body}, nil
}
