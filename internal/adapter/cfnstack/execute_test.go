package cfnstack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/rollout/release"
)

const (
	was     = types.StackStatusUpdateComplete
	runs    = types.StackStatusUpdateInProgress
	cleans  = types.StackStatusUpdateCompleteCleanupInProgress
	is      = types.StackStatusUpdateComplete
	undoes  = types.StackStatusUpdateRollbackInProgress
	undone  = types.StackStatusUpdateRollbackComplete
	stuck   = types.StackStatusUpdateRollbackFailed
	reviews = types.StackStatusReviewInProgress
)

func TestExecute(t *testing.T) {
	c := newCloud()
	c.add("a", was, runs, cleans, is)
	c.add("b", reviews, types.StackStatusCreateInProgress, types.StackStatusCreateComplete).delay = slow - 1
	c.none("c")
	n := 0
	if err := c.adapter().Execute(t.Context(), here, name, []string{"a", "b", "c"}, c.permitted(t, &n, nil)); err != nil {
		t.Fatal(err)
	}
	if got := c.did("execute"); n != 1 || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("executed %v with leave given %d times", got, n)
	}
	if a, b := c.tokens["a"], c.tokens["b"]; a == b || len(a) != len("cellwall-")+32 {
		t.Errorf("tokens %q and %q", a, b)
	}
	if got := c.did("delete"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("deleted %v", got)
	}
	if a := c.stacks["a"]; a.StackStatus != is || len(a.comes) > 0 {
		t.Errorf("it returned while a is %s", a.StackStatus)
	}
	// Again: what was executed is waited for, and not executed twice.
	calls := len(c.calls)
	c.stacks["a"].comes = []types.StackStatus{cleans, is}
	c.none("c")
	if err := c.adapter().Execute(t.Context(), here, name, []string{"a", "b", "c"}, func(context.Context) error { return errors.New("asked") }); err != nil {
		t.Fatal(err)
	}
	if again := c.calls[calls:]; slices.ContainsFunc(again, func(s string) bool { return strings.HasPrefix(s, "execute") }) || len(c.stacks["a"].comes) > 0 {
		t.Errorf("the second time: %v", again)
	}
}

// TestLostAnswerToExecute: the second call is refused since the first was taken; the stack is waited for, and the others follow.
func TestLostAnswerToExecute(t *testing.T) {
	for name, taken := range map[string]bool{"taken": true, "not taken": false} {
		c := newCloud()
		a := c.add("a", was, runs, is)
		c.add("b", was, runs, is)
		tries := 0
		c.fail = func(call string) error {
			if call != "execute a" {
				return nil
			}
			if tries++; tries == 1 {
				return &smithy.GenericAPIError{Code: "Throttling"}
			}
			if taken {
				a.executed, a.exec = true, types.ExecutionStatusExecuteInProgress
			}
			return &types.InvalidChangeSetStatusException{}
		}
		n := 0
		err := c.adapter().Execute(t.Context(), here, "cellwall-0123456789ab-7", []string{"a", "b"}, c.permitted(t, &n, nil))
		if _, b := c.tokens["b"]; (err == nil) != taken || b != taken || taken && a.StackStatus != is {
			t.Errorf("%s: %v; b was executed: %t, a is %s", name, err, b, a.StackStatus)
		}
	}
}

// none adds a stack with a set that changes nothing.
func (c *cloud) none(stack string) *fakeStack {
	f := c.add(stack, was)
	*f.set, f.exec = types.ChangeSetStatusFailed, types.ExecutionStatusUnavailable
	f.reason = "The submitted information didn't contain changes. Submit different information to create a change set."
	return f
}

// TestNothingExecuted: what can be known before the first change stops all of it.
func TestNothingExecuted(t *testing.T) {
	lost := errors.New("the lease is lost")
	for name, test := range map[string]struct {
		spoil  func(c *cloud, b *fakeStack)
		permit error
		leave  int
		want   string
	}{
		"no leave": {permit: lost, leave: 1, want: "nothing was executed: the lease is lost"},
		"no set":   {spoil: func(_ *cloud, b *fakeStack) { b.set = nil }, want: "change set cellwall-0123456789ab-7 of stack b in 111111111111/eu-west-1: there is none"},
		"no stack": {spoil: func(c *cloud, _ *fakeStack) { delete(c.stacks, "b") }, want: "does not exist"},
		"obsolete": {spoil: func(_ *cloud, b *fakeStack) { b.exec = types.ExecutionStatusObsolete }, want: "it is obsolete"},
		"no id":    {spoil: func(_ *cloud, b *fakeStack) { b.id = "" }, want: "does not say its id"},
		"deleting": {spoil: func(_ *cloud, b *fakeStack) { *b.set = types.ChangeSetStatusDeleteInProgress }, want: "it is DELETE_IN_PROGRESS"},
		"failed": {spoil: func(_ *cloud, b *fakeStack) {
			*b.set, b.exec, b.reason = types.ChangeSetStatusFailed, types.ExecutionStatusUnavailable, "Parameter P\nhas no value"
		}, want: "it is FAILED and UNAVAILABLE: Parameter P has no value"},
		"unreadable": {spoil: func(c *cloud, _ *fakeStack) {
			c.fail = only("describe b", &smithy.GenericAPIError{Code: "AccessDenied"})
		}, want: "read stack b"},
	} {
		c := newCloud()
		c.add("a", was, runs, is)
		b := c.add("b", was, runs, is)
		if test.spoil != nil {
			test.spoil(c, b)
		}
		n := 0
		err := c.adapter().Execute(t.Context(), here, "cellwall-0123456789ab-7", []string{"a", "b"}, c.permitted(t, &n, test.permit))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nothing was executed: ") || len(c.tokens) > 0 || n != test.leave {
			t.Errorf("%s: %v after %v, leave asked for %d times; want %q", name, err, c.tokens, n, test.want)
		}
		if test.permit != nil && !errors.Is(err, lost) {
			t.Errorf("%s: the reason is not wrapped: %v", name, err)
		}
	}
}

// TestOneFails: what was executed is waited for, whatever becomes of another, and nothing is executed after an error.
func TestOneFails(t *testing.T) {
	gone := errors.New("connection reset")
	for what, test := range map[string]struct {
		fail error
		b    []types.StackStatus // what becomes of b all the same
		want []string
	}{
		"refused":         {&smithy.GenericAPIError{Code: "InsufficientCapabilitiesException", Message: "no"}, nil, []string{"execute change set", "stack b", "not executed: those of c"}},
		"no answer":       {gone, nil, []string{"connection reset", "stack b in 111111111111/eu-west-1 is UPDATE_COMPLETE as before: the change set was not begun", "not executed: those of c"}},
		"begun all alone": {gone, []types.StackStatus{runs, is}, []string{"connection reset", "not executed: those of c"}},
	} {
		c := newCloud()
		a := c.add("a", was, runs, runs, runs, is)
		b := c.add("b", was, test.b...)
		c.add("c", was, runs, is)
		c.fail = func(call string) error {
			if call != "execute b" {
				return nil
			}
			b.executed = test.b != nil
			return test.fail
		}
		n := 0
		err := c.adapter().Execute(t.Context(), here, name, []string{"a", "b", "c"}, c.permitted(t, &n, nil))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
		if len(a.comes) > 0 || len(b.comes) > 0 || slices.Contains(c.did("execute"), "c") {
			t.Errorf("%s: it returned while a is %s and b %s, or executed c", what, a.StackStatus, b.StackStatus)
		}
	}
}

func TestReasons(t *testing.T) {
	c := newCloud()
	a := c.add("a", was, runs, undoes, undone)
	a.StackStatusReason = aws.String("The following resource(s) failed to update: [F].")
	a.event("", types.ResourceStatusUpdateInProgress, "User Initiated")
	a.event("Old", types.ResourceStatusUpdateFailed, "of a change before")
	a.event("", types.ResourceStatusUpdateComplete, "")
	a.event("", types.ResourceStatusUpdateInProgress, "User Initiated")
	a.event("F", types.ResourceStatusUpdateFailed, "the code\tis\x1b[31m no good")
	a.event("G", types.ResourceStatusUpdateFailed, "Resource update cancelled")
	a.event("", types.ResourceStatus(undoes), "")
	a.event("", types.ResourceStatus(undone), "")
	b := c.add("b", was, runs, undoes, stuck)
	b.event("", types.ResourceStatusUpdateInProgress, "User Initiated")
	b.event("H", types.ResourceStatusUpdateFailed, strings.Repeat("é", 1000))
	b.event("", types.ResourceStatus(undoes), "")
	for range 20 {
		b.event("Group", types.ResourceStatusUpdateFailed, "the template is gone")
	}
	b.event("", types.ResourceStatus(stuck), "")
	n := 0
	err := c.adapter().Execute(t.Context(), here, name, []string{"a", "b"}, c.permitted(t, &n, nil))
	for _, want := range []string{
		"stack a in 111111111111/eu-west-1 is UPDATE_ROLLBACK_COMPLETE: The following resource(s) failed to update: [F].: F (AWS::Lambda::Function) UPDATE_FAILED: the code is [31m no good",
		"; what failed: H (AWS::Lambda::Function) UPDATE_FAILED: éé",
		"stack b in 111111111111/eu-west-1 is UPDATE_ROLLBACK_FAILED; CloudFormation could not roll it back: repair Group, then aws cloudformation continue-update-rollback --region eu-west-1 --stack-name b, as the last resort with --resources-to-skip Group; then rollout rollback",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
	// A journal keeps 1000 bytes of it: the way out is in these, whatever else has failed.
	if text := err.Error(); !strings.Contains(text[:1000], "--stack-name b, as the last resort with --resources-to-skip Group; then rollout rollback") {
		t.Errorf("the way out is not at the beginning: %s", text)
	}
	if text := err.Error(); strings.Contains(text, "of a change before") || strings.Contains(text, "cancelled") || utf8.RuneCountInString(text) > 3000 {
		t.Errorf("%d characters: %s", utf8.RuneCountInString(text), text)
	}
	c.fail = only("events", &smithy.GenericAPIError{Code: "AccessDenied", Message: "no"})
	if err := c.adapter().Execute(t.Context(), here, name, []string{"b"}, nil); err == nil || !strings.Contains(err.Error(), "is UPDATE_ROLLBACK_FAILED; CloudFormation could not roll it back: repair what it names") || !strings.Contains(err.Error(), "its events could not be read") {
		t.Errorf("without events: %v", err)
	}
}

// TestWayOutOfMany: a command that skips only some of what is stuck would be of no use, and is not told.
func TestWayOutOfMany(t *testing.T) {
	got := wayOut("b", here, []string{"A", "B", "C", "D", "E", "F", "G"})
	if !strings.Contains(got, "repair A, B, C, D, E and 2 more, which its events name, then aws") || strings.Contains(got, "skip A") || !strings.Contains(got, "--resources-to-skip and all of these; then rollout rollback") {
		t.Error(got)
	}
}

func TestNotWaitedFor(t *testing.T) {
	c := newCloud()
	c.add("a", was, runs, runs, runs, is)
	ctx, cancel := context.WithCancel(t.Context())
	s := c.adapter()
	c.fail = func(call string) error {
		if call == "execute a" {
			cancel()
		}
		return nil
	}
	n := 0
	if err := s.Execute(ctx, here, name, []string{"a"}, c.permitted(t, &n, nil)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("%v", err)
	}
	c.fail = nil
	c.stacks["a"].comes = nil
	c.stacks["a"].StackStatus = types.StackStatusDeleteComplete
	if err := s.Execute(t.Context(), here, name, []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "is DELETE_COMPLETE") {
		t.Errorf("deleted meanwhile: %v", err)
	}
}

func TestPrepared(t *testing.T) {
	c := newCloud()
	pending := c.add("a", was)
	*pending.set = types.ChangeSetStatusCreatePending
	c.none("b")
	s := c.adapter()
	if err := s.Prepared(t.Context(), here, name, []string{"a", "b"}); err != nil {
		t.Error(err)
	}
	if c.slept == 0 {
		t.Error("it did not wait for the set that is being made")
	}
	pending.exec = types.ExecutionStatusExecuteComplete
	if err := s.Prepared(t.Context(), here, name, []string{"a"}); err == nil || !strings.Contains(err.Error(), "was executed already") {
		t.Errorf("executed: %v", err)
	}
	pending.set = nil
	if err := s.Prepared(t.Context(), here, name, []string{"b", "a"}); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("none: %v", err)
	}
	if err := s.Prepared(t.Context(), release.Place{}, name, []string{"a"}); err == nil {
		t.Error("no place is no error")
	}
	if len(c.tokens) > 0 || len(c.did("delete")) > 0 {
		t.Errorf("something was changed: %v", c.calls)
	}
}
