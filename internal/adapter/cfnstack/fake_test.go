package cfnstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/rollout/release"
)

var here = release.Place{Account: "111111111111", Region: "eu-west-1"}

const name = "cellwall-0123456789ab-7" // of change sets

// fakeStack is a stack that goes through a list of statuses once its change set was executed, one a reading.
type fakeStack struct {
	types.Stack
	body     string
	set      *types.ChangeSetStatus // none without
	id       string                 // of the set
	reason   string                 // of the set
	exec     types.ExecutionStatus
	comes    []types.StackStatus // after the execution
	delay    int                 // readings before the first of them
	executed bool
	events   []types.StackEvent // the oldest first
}

// cloud is CloudFormation in memory. fail, where it is set, answers a call instead.
type cloud struct {
	mu     sync.Mutex
	stacks map[string]*fakeStack
	calls  []string
	tokens map[string]string // of executed sets
	fail   func(call string) error
	clock  time.Time
	slept  time.Duration
}

func newCloud() *cloud {
	return &cloud{stacks: map[string]*fakeStack{}, tokens: map[string]string{}, clock: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
}

// stacks returns the adapter over the fake. It sleeps on the fake's clock.
func (c *cloud) adapter() *Stacks {
	s := New(func(_ context.Context, at release.Place) (Client, error) {
		if at != here {
			return nil, fmt.Errorf("no client for %s", at)
		}
		return c, nil
	})
	s.sleep = func(ctx context.Context, d time.Duration) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.slept += d
		return ctx.Err()
	}
	return s
}

// add puts a stack that is there.
func (c *cloud) add(stack string, status types.StackStatus, comes ...types.StackStatus) *fakeStack {
	ready := types.ChangeSetStatusCreateComplete
	f := &fakeStack{body: `{"Resources": {"A": {"Type": "T"}}}`, set: &ready, id: "arn:set/" + stack, exec: types.ExecutionStatusAvailable, comes: comes}
	f.Stack = types.Stack{StackName: &stack, StackId: aws.String("arn:stack/" + stack), StackStatus: status, CreationTime: &c.clock}
	c.stacks[stack] = f
	return f
}

func (c *cloud) call(what, stack string) (*fakeStack, error) {
	c.calls = append(c.calls, what+" "+strings.TrimPrefix(stack, "arn:stack/"))
	if c.fail != nil {
		if err := c.fail(c.calls[len(c.calls)-1]); err != nil {
			return nil, err
		}
	}
	f := c.stacks[strings.TrimPrefix(stack, "arn:stack/")]
	if f == nil {
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack with id " + stack + " does not exist"}
	}
	return f, nil
}

func (c *cloud) DescribeStacks(_ context.Context, in *cloudformation.DescribeStacksInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("describe", *in.StackName)
	if err != nil {
		return nil, err
	}
	if f.executed {
		if f.delay > 0 {
			f.delay--
		} else if len(f.comes) > 0 {
			f.StackStatus, f.comes = f.comes[0], f.comes[1:]
			f.LastUpdatedTime = aws.Time(c.clock.Add(time.Minute))
		}
	}
	return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{f.Stack}}, nil
}

func (c *cloud) GetTemplate(_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("template", *in.StackName)
	if err != nil {
		return nil, err
	}
	if in.TemplateStage != types.TemplateStageOriginal {
		return nil, fmt.Errorf("stage %q", in.TemplateStage)
	}
	return &cloudformation.GetTemplateOutput{TemplateBody: &f.body}, nil
}

func (c *cloud) DescribeChangeSet(_ context.Context, in *cloudformation.DescribeChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeChangeSetOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("set", *in.StackName)
	if err != nil {
		return nil, err
	}
	if f.set == nil || *in.ChangeSetName != name && *in.ChangeSetName != f.id {
		return nil, &types.ChangeSetNotFoundException{Message: aws.String("ChangeSet [" + *in.ChangeSetName + "] does not exist")}
	}
	out := &cloudformation.DescribeChangeSetOutput{ChangeSetId: &f.id, StackId: f.StackId, Status: *f.set, ExecutionStatus: f.exec, StatusReason: &f.reason}
	if *f.set == types.ChangeSetStatusCreatePending { // is ready when it is read again
		*f.set = types.ChangeSetStatusCreateComplete
	}
	return out, nil
}

func (c *cloud) ExecuteChangeSet(_ context.Context, in *cloudformation.ExecuteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.ExecuteChangeSetOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("execute", *in.StackName)
	if err != nil {
		return nil, err
	}
	if *in.ChangeSetName != f.id {
		return nil, fmt.Errorf("executed set %s instead of %s", *in.ChangeSetName, f.id)
	}
	c.tokens[*f.StackName] = aws.ToString(in.ClientRequestToken)
	f.executed, f.exec = true, types.ExecutionStatusExecuteInProgress
	return &cloudformation.ExecuteChangeSetOutput{}, nil
}

func (c *cloud) DeleteChangeSet(_ context.Context, in *cloudformation.DeleteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DeleteChangeSetOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("delete", *in.StackName)
	if err != nil {
		return nil, err
	}
	f.set = nil
	return &cloudformation.DeleteChangeSetOutput{}, nil
}

// DescribeStackEvents returns two events at a time, the newest first.
func (c *cloud) DescribeStackEvents(_ context.Context, in *cloudformation.DescribeStackEventsInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStackEventsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.call("events", *in.StackName)
	if err != nil {
		return nil, err
	}
	from := 0
	if in.NextToken != nil {
		fmt.Sscan(*in.NextToken, &from)
	}
	all := slices.Clone(f.events)
	slices.Reverse(all)
	to := min(from+2, len(all))
	out := &cloudformation.DescribeStackEventsOutput{StackEvents: all[from:to]}
	if to < len(all) {
		out.NextToken = aws.String(fmt.Sprint(to))
	}
	return out, nil
}

// event adds an event of a resource, or of the stack itself where there is no resource.
func (f *fakeStack) event(resource string, status types.ResourceStatus, reason string) {
	e := types.StackEvent{StackId: f.StackId, LogicalResourceId: &resource, ResourceType: aws.String("AWS::Lambda::Function"), PhysicalResourceId: aws.String("x"), ResourceStatus: status}
	if resource == "" {
		e.LogicalResourceId, e.ResourceType, e.PhysicalResourceId = f.StackName, aws.String("AWS::CloudFormation::Stack"), f.StackId
	}
	if reason != "" {
		e.ResourceStatusReason = &reason
	}
	f.events = append(f.events, e)
}

// did are the calls of a kind, by stack.
func (c *cloud) did(kind string) (stacks []string) {
	for _, call := range c.calls {
		if what, stack, _ := strings.Cut(call, " "); what == kind {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// permitted counts how often leave was given, and sees that nothing was executed before.
func (c *cloud) permitted(t *testing.T, n *int, err error) func(context.Context) error {
	return func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if *n++; len(c.tokens) > 0 {
			t.Error("leave was asked for after a change")
		}
		if last := c.calls[len(c.calls)-1]; !strings.HasPrefix(last, "describe ") {
			t.Errorf("leave was asked for after %q", last)
		}
		return err
	}
}
