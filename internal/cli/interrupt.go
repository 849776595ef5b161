package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Interrupted is the cause of a context that a signal has ended: the signal's number.
type Interrupted int

func (s Interrupted) Error() string { return fmt.Sprintf("interrupted by signal %d", int(s)) }

// ExitSignal is what shells add to the number of the signal that ended a process: 130 is an interrupt.
const ExitSignal = 128

// watches says that the command, from now on, ends by itself when its context does, because it has
// something to leave in order. All others are given up: they only read and print, and some of what they
// read, such as a pipe that nobody writes to, cannot be waited for with a context.
func (a *app) watches() { a.watching.Store(true) }

// outlivesReaders lets the process go on when nobody reads any more what it prints, such as a pipe to head: writing fails
// then, instead of ending it with everything that it is about. To be told of the signal, and not to ignore it, leaves it
// as it is for the processes that are started.
func outlivesReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// untilInterrupted runs a command and returns its error, or at once the cause for which ctx has ended,
// unless the command watches that.
func (a *app) untilInterrupted(ctx context.Context, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return bySignal(ctx, err)
	case <-ctx.Done():
	}
	if a.watching.Load() {
		return bySignal(ctx, <-done)
	}
	return context.Cause(ctx)
}

// bySignal is the error of a command that failed for no other reason than that a signal has ended ctx.
func bySignal(ctx context.Context, err error) error {
	signal, ended := errors.AsType[Interrupted](context.Cause(ctx))
	if _, said := errors.AsType[Interrupted](err); !ended || said || !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", signal, err)
}

// statusOf is the exit status that an error stands for.
func statusOf(err error) int {
	if s, ok := errors.AsType[Interrupted](err); ok {
		return ExitSignal + int(s)
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return ExitFailed
}
