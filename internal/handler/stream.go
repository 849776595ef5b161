package handler

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"cellwall.dev/cellwall/internal/awsevent"
)

// errBrokeOff ends a streamed answer that is not whole. Lambda passes its text on to the invoker, so it says
// nothing of what went wrong.
var errBrokeOff = errors.New("the answer broke off")

// bounded is a streamed answer that ends with a context. aws-lambda-go reads it, since it has nothing that JSON
// would show.
type bounded struct {
	*awsevent.Stream
	log     *slog.Logger
	release func()
}

// until bounds a stream: when ctx ends, it breaks off, so that a body that nobody finishes ends before Lambda kills
// the function. Closing it releases.
func until(ctx context.Context, stream *awsevent.Stream, log *slog.Logger, release func()) *bounded {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	return &bounded{stream, log, sync.OnceFunc(func() { stop(); release() })}
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Stream.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.log.Error("answer broke off", "err", err)
		return n, errBrokeOff
	}
	return n, err
}

// Close lets go of the body.
func (b *bounded) Close() error {
	err := b.Stream.Close()
	b.release()
	return err
}
