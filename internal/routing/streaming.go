package routing

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// A streamed answer outlives the call of Send that brought its head, and with it the context of the attempt,
// which the engine ends when it has an answer. Sending and Streamed are what transports need for that.

// Sending is a context for one sending whose answer may become a stream. It ends with ctx until Streamed; from
// then on at ctx's deadline, which the shard was told too, or when the stream is closed.
type Sending struct {
	context.Context
	cancel context.CancelFunc
	leave  func() bool // takes it out of ctx's hands
	ctx    context.Context
}

// NewSending returns a context. End or Streamed must be called.
func NewSending(ctx context.Context) *Sending {
	apart := context.WithoutCancel(ctx)
	s := &Sending{ctx: ctx}
	if deadline, ok := ctx.Deadline(); ok {
		s.Context, s.cancel = context.WithDeadline(apart, deadline)
	} else {
		s.Context, s.cancel = context.WithCancel(apart)
	}
	s.leave = context.AfterFunc(ctx, s.cancel)
	return s
}

// End ends the sending.
func (s *Sending) End() {
	s.leave()
	s.cancel()
}

// Streamed makes the answer's stream of what is left of its body: the sending ends when it is closed.
func (s *Sending) Streamed(body io.ReadCloser) io.ReadCloser {
	s.leave()
	return &streamed{body: body, sending: s}
}

// Why says with an error of the sending why it failed, where that was ctx's end.
func (s *Sending) Why(err error) error {
	if ended := s.ctx.Err(); err != nil && ended != nil {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

type streamed struct {
	body    io.ReadCloser
	sending *Sending
	once    sync.Once
	err     error
}

func (s *streamed) Read(p []byte) (int, error) { return s.body.Read(p) }

// Close ends the sending first, so that closing waits for nobody.
func (s *streamed) Close() error {
	s.once.Do(func() {
		s.sending.End()
		s.err = s.body.Close()
	})
	return s.err
}

// Streamable says whether an answer may stay a stream. Only one that succeeded may: with any other the engine may
// ask another shard, and what is passed on half cannot be taken back.
func Streamable(status int) bool { return status >= 200 && status <= 299 }

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
