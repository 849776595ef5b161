package cfnstack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// Bounds of what is told of a failure.
const (
	maxReasons = 5
	maxReason  = 300 // characters
	maxPages   = 20  // of 100 events
)

// failure is why a stack did not end complete, by its events since the change began.
func (s *Stacks) failure(ctx context.Context, c Client, x *set, stack types.Stack) error {
	text := fmt.Sprintf("stack %s in %s is %s", x.stack, x.at, stack.StackStatus)
	if why := bounded(aws.ToString(stack.StackStatusReason)); why != "" {
		text += ": " + why
	}
	events, err := s.events(ctx, c, x.owner)
	reasons, left := reasons(events)
	stuck := status(stack.StackStatus) == rollout.Stuck
	if stuck { // before the reasons, which may be longer than what a journal keeps
		text += "; " + wayOut(x.stack, x.at, left) + "; what failed"
	}
	if len(reasons) > 0 {
		text += ": " + strings.Join(reasons, "; ")
	}
	if err != nil {
		text += "; its events could not be read"
	}
	return &failed{text, stuck, err}
}

// failed is a stack that did not end complete.
type failed struct {
	text  string
	stuck bool
	err   error // of reading its events
}

func (f *failed) Error() string {
	if f.err != nil {
		return f.text + ": " + f.err.Error()
	}
	return f.text
}
func (f *failed) Unwrap() error { return f.err }

// stuckFirst orders errors: the one with a way out must not be lost behind many others.
func stuckFirst(errs []error) {
	rank := func(err error) int {
		if f := (*failed)(nil); errors.As(err, &f) && f.stuck {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
}

// wayOut is what to do about a stack that could not be rolled back, with the resources that it could not bring back.
func wayOut(stack string, at release.Place, left []string) string {
	which, skip := "what it names", ""
	switch more := len(left) - maxReasons; {
	case more > 0: // a command that skips some of them would only fail again
		which = fmt.Sprintf("%s and %d more, which its events name", strings.Join(left[:maxReasons], ", "), more)
		skip = ", as the last resort with --resources-to-skip and all of these"
	case len(left) > 0:
		which = strings.Join(left, ", ")
		skip = ", as the last resort with --resources-to-skip " + strings.Join(left, " ")
	}
	call := fmt.Sprintf("aws cloudformation continue-update-rollback --region %s --stack-name %s", at.Region, stack)
	text := "CloudFormation could not roll it back: repair " + which + ", then " + call + skip
	return text + "; then rollout rollback"
}

// events are those of a stack since its latest change began, the oldest first.
func (s *Stacks) events(ctx context.Context, c Client, id string) ([]types.StackEvent, error) {
	var all []types.StackEvent
	var token *string
	for range maxPages {
		var out *cloudformation.DescribeStackEventsOutput
		err := s.patiently(ctx, func() (err error) {
			out, err = c.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &id, NextToken: token})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range out.StackEvents { // the newest comes first
			if ofStack(e) && (e.ResourceStatus == types.ResourceStatusUpdateInProgress || e.ResourceStatus == types.ResourceStatusCreateInProgress) {
				slices.Reverse(all)
				return all, nil
			}
			all = append(all, e)
		}
		if token = out.NextToken; token == nil {
			break
		}
	}
	slices.Reverse(all)
	return all, nil
}

// ofStack says that an event is of the stack itself.
func ofStack(e types.StackEvent) bool {
	return aws.ToString(e.ResourceType) == "AWS::CloudFormation::Stack" && aws.ToString(e.PhysicalResourceId) == aws.ToString(e.StackId)
}

// reasons are the first failures of resources, and left those that failed while the stack was rolled back.
func reasons(events []types.StackEvent) (first, left []string) {
	rolling := false
	for _, e := range events {
		id := aws.ToString(e.LogicalResourceId)
		switch {
		case ofStack(e):
			rolling = rolling || strings.Contains(string(e.ResourceStatus), "ROLLBACK_IN_PROGRESS")
		case !strings.HasSuffix(string(e.ResourceStatus), "_FAILED"):
		case strings.Contains(aws.ToString(e.ResourceStatusReason), "ancelled"): // for another's sake
		default:
			if rolling && !slices.Contains(left, id) {
				left = append(left, id)
			}
			if len(first) < maxReasons {
				first = append(first, fmt.Sprintf("%s (%s) %s: %s", id, aws.ToString(e.ResourceType), e.ResourceStatus, bounded(aws.ToString(e.ResourceStatusReason))))
			}
		}
	}
	return first, left
}

// bounded is a text of AWS's on one line, of bounded length.
func bounded(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))), " ")
	if r := []rune(s); len(r) > maxReason {
		return string(r[:maxReason]) + "…"
	}
	return s
}
