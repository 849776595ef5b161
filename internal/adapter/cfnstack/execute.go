package cfnstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// set is a change set of one stack.
type set struct {
	stack string // name
	id    string // of the set
	owner string // id of the stack
	state setState
	at    release.Place

	before types.Stack // when it was executed
}

type setState int

const (
	executable setState = iota
	empty               // the stack is already so
	executed            // once before, or now
)

// Prepared implements release.CloudFormation.
func (s *Stacks) Prepared(ctx context.Context, at release.Place, name string, stacks []string) error {
	c, err := s.in(ctx, at)
	if err != nil {
		return err
	}
	sets, err := s.sets(ctx, c, at, name, stacks)
	if err != nil {
		return err
	}
	for _, x := range sets {
		if x.state == executed {
			return fmt.Errorf("change set %s of stack %s was executed already", name, x.stack)
		}
	}
	return nil
}

// sets finds the change set of that name of each stack.
func (s *Stacks) sets(ctx context.Context, c Client, at release.Place, name string, stacks []string) ([]*set, error) {
	sets := make([]*set, len(stacks))
	err := each(len(stacks), func(i int) (err error) {
		if sets[i], err = s.set(ctx, c, name, stacks[i]); err != nil {
			return fmt.Errorf("change set %s of stack %s in %s: %w", name, stacks[i], at, err)
		}
		sets[i].at = at
		return nil
	})
	return sets, err
}

func (s *Stacks) set(ctx context.Context, c Client, name, stack string) (*set, error) {
	var out *cloudformation.DescribeChangeSetOutput
	for pause := firstly; ; pause = min(2*pause, longest) {
		err := s.patiently(ctx, func() (err error) {
			out, err = c.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{StackName: &stack, ChangeSetName: &name})
			return err
		})
		var gone *types.ChangeSetNotFoundException
		switch {
		case errors.As(err, &gone):
			return nil, fmt.Errorf("there is none: it was not made, or another deployment has taken it away; prepare it again: %w", err)
		case err != nil:
			return nil, err
		}
		if out.Status != types.ChangeSetStatusCreatePending && out.Status != types.ChangeSetStatusCreateInProgress {
			break
		}
		if err := s.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	x := &set{stack: stack, id: aws.ToString(out.ChangeSetId), owner: aws.ToString(out.StackId)}
	if x.id == "" || x.owner == "" {
		return nil, errors.New("CloudFormation does not say its id")
	}
	switch {
	case out.Status == types.ChangeSetStatusFailed && noChanges(aws.ToString(out.StatusReason)):
		x.state = empty
	case out.Status == types.ChangeSetStatusCreateComplete && out.ExecutionStatus == types.ExecutionStatusAvailable:
		x.state = executable
	case out.ExecutionStatus == types.ExecutionStatusExecuteInProgress, out.ExecutionStatus == types.ExecutionStatusExecuteComplete,
		out.ExecutionStatus == types.ExecutionStatusExecuteFailed:
		x.state = executed
	case out.ExecutionStatus == types.ExecutionStatusObsolete:
		return nil, errors.New("it is obsolete: the stack has changed since it was made; prepare it again")
	default:
		return nil, fmt.Errorf("it is %s and %s: %s", out.Status, out.ExecutionStatus, bounded(aws.ToString(out.StatusReason)))
	}
	return x, nil
}

// noChanges knows the texts by which CloudFormation says that a change set is empty; no other field tells (aws-cdk
// 2.1148.1, changeSetHasNoChanges).
func noChanges(reason string) bool {
	return strings.HasPrefix(reason, "The submitted information didn't contain changes.") || strings.HasPrefix(reason, "No updates are to be performed.")
}

// Execute implements release.CloudFormation. A set that was executed before is waited for. When ctx ends, stacks go on
// by themselves.
func (s *Stacks) Execute(ctx context.Context, at release.Place, name string, stacks []string, permit func(context.Context) error) error {
	c, err := s.in(ctx, at)
	if err != nil {
		return err
	}
	sets, err := s.sets(ctx, c, at, name, stacks)
	if err != nil {
		return fmt.Errorf("nothing was executed: %w", err)
	}
	var todo, started []*set
	for _, x := range sets {
		switch x.state {
		case executable:
			stack, err := s.describe(ctx, c, x.owner)
			if err != nil || stack == nil {
				return fmt.Errorf("nothing was executed: read stack %s in %s: %w", x.stack, at, errors.Join(err, errors.New("it must be there")))
			}
			x.before = *stack
			todo = append(todo, x)
		case executed:
			started = append(started, x)
		}
	}
	if len(todo) > 0 {
		if err := permit(ctx); err != nil {
			return fmt.Errorf("nothing was executed: %w", err)
		}
	}
	var errs []error
	for i, x := range todo {
		if err := s.execute(ctx, c, x); err != nil {
			errs = append(errs, fmt.Errorf("execute change set %s of stack %s in %s: %w", name, x.stack, at, err))
			if api := smithy.APIError(nil); !errors.As(err, &api) { // no answer: it may have begun
				started = append(started, x)
			}
			if i+1 < len(todo) {
				errs = append(errs, fmt.Errorf("not executed: those of %s", names(todo[i+1:])))
			}
			break
		}
		started = append(started, x)
	}
	settled := make([]error, len(started))
	each(len(started), func(i int) error { settled[i] = s.settled(ctx, c, started[i]); return nil })
	errs = append(errs, settled...)
	stuckFirst(errs)
	for _, x := range sets {
		if x.state == empty { // nobody misses it; the stack's next change takes it away otherwise
			c.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{StackName: &x.owner, ChangeSetName: &x.id})
		}
	}
	return errors.Join(errs...)
}

// execute executes one set. The token is of this very set: a second call with it is the same call.
func (s *Stacks) execute(ctx context.Context, c Client, x *set) error {
	sum := sha256.Sum256([]byte(x.id))
	token := "cellwall-" + hex.EncodeToString(sum[:16])
	err := s.patiently(ctx, func() error {
		_, err := c.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{StackName: &x.owner, ChangeSetName: &x.id, ClientRequestToken: &token})
		return err
	})
	// An answer that was lost leads to a second call, which is refused because the first was taken: the set's name has the
	// number of our lease, so nobody else has executed it.
	var refused *types.InvalidChangeSetStatusException
	if errors.As(err, &refused) {
		if now, again := s.set(ctx, c, x.id, x.owner); again == nil && now.state == executed {
			err = nil
		}
	}
	if err == nil {
		x.state = executed
	}
	return err
}

// Of waiting.
const (
	firstPoll = time.Second
	lastPoll  = 10 * time.Second
	// slow is how many readings may show a stack as it was before, after CloudFormation has accepted the change.
	slow = 6
)

// settled waits until a stack has settled after its set was executed, and says why when it did not end complete.
func (s *Stacks) settled(ctx context.Context, c Client, x *set) error {
	pause, still := firstPoll, 0
	for {
		stack, err := s.describe(ctx, c, x.owner)
		if err != nil {
			return fmt.Errorf("wait for stack %s in %s: %w", x.stack, x.at, err)
		}
		if stack == nil {
			return fmt.Errorf("stack %s in %s is gone", x.stack, x.at)
		}
		if !moved(x.before, *stack) {
			still++
		}
		now := status(stack.StackStatus)
		waits := now == rollout.InProgress || still > 0 && still < slow && !moved(x.before, *stack)
		switch {
		case waits:
		case now == rollout.Complete && moved(x.before, *stack):
			return nil
		case !moved(x.before, *stack):
			return fmt.Errorf("stack %s in %s is %s as before: the change set was not begun", x.stack, x.at, stack.StackStatus)
		default:
			return s.failure(ctx, c, x, *stack)
		}
		if err := s.sleep(ctx, pause); err != nil {
			return fmt.Errorf("stack %s in %s was not waited for any longer, and goes on: %w", x.stack, x.at, err)
		}
		pause = min(pause*3/2, lastPoll)
	}
}

func names(sets []*set) string {
	var all []string
	for _, x := range sets {
		all = append(all, x.stack)
	}
	return strings.Join(all, ", ")
}
