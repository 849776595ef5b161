package cwgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// patience is how often a question is asked before it is without an answer.
type patience int

const (
	once    patience = 1
	patient patience = 4 // within 7 s, beside the client's own attempts
)

const firstWait = time.Second

// transient knows what is worth asking again: what was turned away for its rate, an answer of 5xx, a broken connection.
var transient = retry.NewStandard()

// ask asks until there is an answer, the patience ends, or asking again is of no use.
func ask[T any](ctx context.Context, g *Gate, how patience, question func(context.Context) (*T, error)) (*T, error) {
	wait := firstWait
	for attempt := patience(1); ; attempt++ {
		out, err := question(ctx)
		switch {
		case err == nil && out == nil:
			return nil, errors.New("there is no answer")
		case err == nil || ctx.Err() != nil || attempt >= how || !transient.IsErrorRetryable(err):
			return out, err
		}
		if g.wait(ctx, wait) != nil {
			return nil, err
		}
		wait *= 2
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const longest = 300 // bytes of a reason

// told is what is missing, with the reason in one line.
func told(what string, err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	return fmt.Sprintf("%s (%s)", what, text)
}
