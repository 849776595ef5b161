// Package cfnstack reads stacks with AWS CloudFormation and executes the change sets that somebody else has made of
// them. It makes none itself, and deletes nothing but sets that are empty.
//
// Permissions: cloudformation:DescribeStacks, GetTemplate, DescribeChangeSet, ExecuteChangeSet, DeleteChangeSet and
// DescribeStackEvents, on the stacks of the service. A change set carries the role that it is executed by.
package cfnstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// Client is the part of *cloudformation.Client that is needed, of one account and region.
type Client interface {
	DescribeStacks(context.Context, *cloudformation.DescribeStacksInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error)
	GetTemplate(context.Context, *cloudformation.GetTemplateInput, ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error)
	DescribeChangeSet(context.Context, *cloudformation.DescribeChangeSetInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeChangeSetOutput, error)
	ExecuteChangeSet(context.Context, *cloudformation.ExecuteChangeSetInput, ...func(*cloudformation.Options)) (*cloudformation.ExecuteChangeSetOutput, error)
	DeleteChangeSet(context.Context, *cloudformation.DeleteChangeSetInput, ...func(*cloudformation.Options)) (*cloudformation.DeleteChangeSetOutput, error)
	DescribeStackEvents(context.Context, *cloudformation.DescribeStackEventsInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error)
}

// Stacks reads and changes the stacks of several places. It is safe for concurrent use.
type Stacks struct {
	client func(ctx context.Context, at release.Place) (Client, error)
	sleep  func(context.Context, time.Duration) error

	mu      sync.Mutex
	clients map[release.Place]Client
	turns   map[release.Place]chan struct{} // to read, in that place
}

var _ release.CloudFormation = (*Stacks)(nil)

// New returns the stacks of the places for which client gives a client, once each. Its credentials must be known to be
// of that account.
func New(client func(ctx context.Context, at release.Place) (Client, error)) *Stacks {
	return &Stacks{client: client, sleep: sleep, clients: map[release.Place]Client{}, turns: map[release.Place]chan struct{}{}}
}

// turnsIn has a place for each stack that is read at a time.
func (s *Stacks) turnsIn(at release.Place) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns[at] == nil {
		s.turns[at] = make(chan struct{}, atOnce)
	}
	return s.turns[at]
}

func (s *Stacks) in(ctx context.Context, at release.Place) (Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.clients[at]; ok {
		return c, nil
	}
	c, err := s.client(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("reach CloudFormation in %s: %w", at, err)
	}
	s.clients[at] = c
	return c, nil
}

// statuses is what each of CloudFormation's words is to a rollout. A stack in review was never made.
var statuses = map[types.StackStatus]rollout.StackStatus{
	types.StackStatusCreateComplete: rollout.Complete,
	types.StackStatusUpdateComplete: rollout.Complete,
	types.StackStatusImportComplete: rollout.Complete,

	types.StackStatusUpdateRollbackComplete: rollout.RolledBack,
	types.StackStatusImportRollbackComplete: rollout.RolledBack,

	types.StackStatusCreateInProgress:                        rollout.InProgress,
	types.StackStatusRollbackInProgress:                      rollout.InProgress,
	types.StackStatusDeleteInProgress:                        rollout.InProgress,
	types.StackStatusUpdateInProgress:                        rollout.InProgress,
	types.StackStatusUpdateCompleteCleanupInProgress:         rollout.InProgress,
	types.StackStatusUpdateRollbackInProgress:                rollout.InProgress,
	types.StackStatusUpdateRollbackCompleteCleanupInProgress: rollout.InProgress,
	types.StackStatusImportInProgress:                        rollout.InProgress,
	types.StackStatusImportRollbackInProgress:                rollout.InProgress,

	types.StackStatusCreateFailed:         rollout.Failed,
	types.StackStatusRollbackComplete:     rollout.Failed,
	types.StackStatusRollbackFailed:       rollout.Failed,
	types.StackStatusDeleteFailed:         rollout.Failed,
	types.StackStatusUpdateFailed:         rollout.Failed,
	types.StackStatusImportRollbackFailed: rollout.Failed,

	types.StackStatusUpdateRollbackFailed: rollout.Stuck,

	types.StackStatusReviewInProgress: rollout.Absent,
	types.StackStatusDeleteComplete:   rollout.Absent,
}

// status is what a word is, and Unknown for one that nobody knew when this was written.
func status(word types.StackStatus) rollout.StackStatus {
	if s, ok := statuses[word]; ok {
		return s
	}
	return rollout.Unknown
}

// atOnce is how many stacks are asked for at a time, of one stage and of all that are read in a place. CloudFormation
// allows some ten reading calls a second to all who ask in an account's region.
const atOnce = 4

// each calls f for every index, a few at a time, and joins what it returns.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	gate := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Read implements release.CloudFormation.
func (s *Stacks) Read(ctx context.Context, at release.Place, stacks []string) ([]release.Found, error) {
	c, err := s.in(ctx, at)
	if err != nil {
		return nil, err
	}
	found := make([]release.Found, len(stacks))
	turns := s.turnsIn(at)
	err = each(len(stacks), func(i int) (err error) {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-turns }()
		if found[i], err = s.read(ctx, c, stacks[i]); err != nil {
			return fmt.Errorf("read stack %s in %s: %w", stacks[i], at, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// read reads one stack. Status and template come by two calls, so the status is read again behind the template: what
// changed in between is under way.
func (s *Stacks) read(ctx context.Context, c Client, name string) (release.Found, error) {
	stack, err := s.describe(ctx, c, name)
	if err != nil || stack == nil {
		return release.Found{Status: rollout.Absent}, err
	}
	f := release.Found{Status: status(stack.StackStatus), Said: string(stack.StackStatus), Protected: aws.ToBool(stack.EnableTerminationProtection), Began: began(*stack), Tags: map[string]string{}}
	for _, tag := range stack.Tags {
		f.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	switch f.Status {
	case rollout.Unknown:
		return f, fmt.Errorf("its status %q is none that is known", f.Said)
	case rollout.InProgress, rollout.Absent:
		return f, nil
	}
	var out *cloudformation.GetTemplateOutput
	err = s.patiently(ctx, func() (err error) {
		out, err = c.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: stack.StackId, TemplateStage: types.TemplateStageOriginal})
		return err
	})
	if err != nil {
		return f, err
	}
	if f.Hash, err = release.Canonical([]byte(aws.ToString(out.TemplateBody))); err != nil {
		return f, err
	}
	after, err := s.describe(ctx, c, name)
	if err != nil {
		return f, err
	}
	if after == nil || aws.ToString(after.StackId) != aws.ToString(stack.StackId) || moved(*stack, *after) {
		f.Status, f.Hash = rollout.InProgress, ""
	}
	return f, nil
}

// moved says that something has happened to a stack between two readings.
func moved(before, after types.Stack) bool {
	return before.StackStatus != after.StackStatus || aws.ToString(before.ChangeSetId) != aws.ToString(after.ChangeSetId) ||
		!aws.ToTime(before.LastUpdatedTime).Equal(aws.ToTime(after.LastUpdatedTime))
}

// began is when the last change of a stack began, whether it succeeded or not.
func began(s types.Stack) time.Time {
	if s.LastUpdatedTime != nil {
		return *s.LastUpdatedTime
	}
	return aws.ToTime(s.CreationTime)
}

// describe returns a stack by its name or id; nil when there is none.
func (s *Stacks) describe(ctx context.Context, c Client, name string) (*types.Stack, error) {
	var out *cloudformation.DescribeStacksOutput
	err := s.patiently(ctx, func() (err error) {
		out, err = c.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
		return err
	})
	var api smithy.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode() == "ValidationError" && strings.Contains(api.ErrorMessage(), "does not exist"):
		return nil, nil
	case err != nil:
		return nil, err
	case len(out.Stacks) != 1:
		return nil, fmt.Errorf("CloudFormation answers with %d stacks of that name", len(out.Stacks))
	}
	return &out.Stacks[0], nil
}

// Of patience with a service that throttles or falters, beyond the SDK's own tries.
const (
	tries   = 8
	firstly = time.Second
	longest = 20 * time.Second
)

var transient = retry.IsErrorRetryables(append([]retry.IsErrorRetryable{retry.NoRetryCanceledError{}}, retry.DefaultRetryables...))

// patiently calls f again, later each time, while its error will pass.
func (s *Stacks) patiently(ctx context.Context, f func() error) error {
	pause := firstly
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || ctx.Err() != nil || transient.IsErrorRetryable(err) != aws.TrueTernary {
			return err
		}
		if e := s.sleep(ctx, pause); e != nil {
			return errors.Join(err, e)
		}
		pause = min(2*pause, longest)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
