package cfnstack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// TestStatuses: every status that the SDK knows is one of the rollout's, by its name; any other is unknown.
func TestStatuses(t *testing.T) {
	own := map[types.StackStatus]rollout.StackStatus{
		types.StackStatusReviewInProgress:       rollout.Absent,
		types.StackStatusDeleteComplete:         rollout.Absent,
		types.StackStatusRollbackComplete:       rollout.Failed,
		types.StackStatusUpdateRollbackFailed:   rollout.Stuck,
		types.StackStatusUpdateRollbackComplete: rollout.RolledBack,
		types.StackStatusImportRollbackComplete: rollout.RolledBack,
	}
	for _, word := range types.StackStatus("").Values() {
		want, ok := own[word]
		switch {
		case ok:
		case strings.HasSuffix(string(word), "_IN_PROGRESS"):
			want = rollout.InProgress
		case strings.HasSuffix(string(word), "_FAILED"):
			want = rollout.Failed
		case strings.HasSuffix(string(word), "_COMPLETE"):
			want = rollout.Complete
		}
		if got := status(word); got != want {
			t.Errorf("%s is %q, want %q", word, got, want)
		}
	}
	if got := status("PARTY_COMPLETE"); got != rollout.Unknown {
		t.Errorf("a new word is %q", got)
	}
}

func TestRead(t *testing.T) {
	c := newCloud()
	c.add("json", types.StackStatusUpdateComplete).Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("x")}}
	yaml := c.add("yaml", types.StackStatusUpdateRollbackComplete)
	yaml.body, yaml.EnableTerminationProtection = "Description: d\nResources:\n  A: {Type: T}\n", aws.Bool(true)
	c.add("new", types.StackStatusReviewInProgress)
	c.add("busy", types.StackStatusUpdateInProgress)
	got, err := c.adapter().Read(t.Context(), here, []string{"json", "none", "yaml", "new", "busy"})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := release.Canonical([]byte(`{"Resources": {"A": {"Type": "T"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []release.Found{
		{Status: rollout.Complete, Said: "UPDATE_COMPLETE", Hash: hash},
		{Status: rollout.Absent},
		{Status: rollout.RolledBack, Said: "UPDATE_ROLLBACK_COMPLETE", Hash: hash, Protected: true},
		{Status: rollout.Absent, Said: "REVIEW_IN_PROGRESS"},
		{Status: rollout.InProgress, Said: "UPDATE_IN_PROGRESS"},
	}
	for i, w := range want {
		if g := got[i]; g.Status != w.Status || g.Said != w.Said || g.Hash != w.Hash || g.Protected != w.Protected {
			t.Errorf("%d: %+v, want %+v", i, g, w)
		}
	}
	if got[0].Tags["team"] != "x" {
		t.Errorf("tags %v", got[0].Tags)
	}
	if asked := c.did("template"); slices.Contains(asked, "new") || slices.Contains(asked, "busy") {
		t.Errorf("templates of %v", asked)
	}
}

// TestReadWhileItChanges: a stack that changes between its status and its template is under way.
func TestReadWhileItChanges(t *testing.T) {
	for _, after := range []types.StackStatus{types.StackStatusUpdateInProgress, types.StackStatusUpdateComplete} {
		c := newCloud()
		f := c.add("a", types.StackStatusUpdateComplete, after)
		c.fail = func(call string) error {
			f.executed = f.executed || strings.HasPrefix(call, "template")
			return nil
		}
		got, err := c.adapter().Read(t.Context(), here, []string{"a"})
		if err != nil || got[0].Status != rollout.InProgress || got[0].Hash != "" {
			t.Errorf("%s: %+v, %v", after, got, err)
		}
	}
}

func TestReadFails(t *testing.T) {
	denied := &smithy.GenericAPIError{Code: "AccessDenied", Message: "no"}
	for name, test := range map[string]struct {
		fail func(string) error
		body string
		word types.StackStatus
		want string
	}{
		"denied":          {fail: func(string) error { return denied }, want: "read stack a in 111111111111/eu-west-1"},
		"denied template": {fail: only("template", denied), want: "AccessDenied"},
		"throttled for ever": {fail: func(string) error {
			return &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded"}
		}, want: "Rate exceeded"},
		"no template":   {body: "[", want: "the template cannot be read"},
		"not an object": {body: "- 1", want: "the template is a list"},
		"a new word":    {word: "PARTY_COMPLETE", want: `"PARTY_COMPLETE" is none that is known`},
		"validation else": {fail: func(string) error {
			return &smithy.GenericAPIError{Code: "ValidationError", Message: "1 validation error"}
		}, want: "1 validation error"},
	} {
		c := newCloud()
		f := c.add("a", types.StackStatusCreateComplete)
		c.fail = test.fail
		if test.body != "" {
			f.body = test.body
		}
		if test.word != "" {
			f.StackStatus = test.word
		}
		if _, err := c.adapter().Read(t.Context(), here, []string{"a"}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := newCloud().adapter().Read(t.Context(), release.Place{Account: "2", Region: "r"}, []string{"a"}); err == nil || !strings.Contains(err.Error(), "no client for 2/r") {
		t.Errorf("another place: %v", err)
	}
}

func only(prefix string, err error) func(string) error {
	return func(call string) error {
		if strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	}
}

// crowd counts those who are described at once.
type crowd struct {
	*cloud
	now, most atomic.Int32
}

func (c *crowd) DescribeStacks(ctx context.Context, in *cloudformation.DescribeStacksInput, o ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(100 * time.Microsecond)
	return c.cloud.DescribeStacks(ctx, in, o...)
}

// TestReadersTakeTurns: however many stages of a place are read at once, a few stacks are asked for at a time.
func TestReadersTakeTurns(t *testing.T) {
	c := &crowd{cloud: newCloud()}
	var stacks []string
	for i := range 10 {
		stacks = append(stacks, fmt.Sprint("s", i))
		c.add(stacks[i], types.StackStatusCreateComplete)
	}
	s := New(func(context.Context, release.Place) (Client, error) { return c, nil })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if found, err := s.Read(t.Context(), here, stacks); err != nil || len(found) != 10 {
				t.Errorf("%d stacks, %v", len(found), err)
			}
		})
	}
	all.Wait()
	if most := c.most.Load(); most > atOnce || most < 2 {
		t.Errorf("%d at once, want %d at most", most, atOnce)
	}
}

// TestThrottled: what throttles is asked again, later each time, and what is refused is not.
func TestThrottled(t *testing.T) {
	c := newCloud()
	c.add("a", types.StackStatusCreateComplete)
	left := 5
	c.fail = func(string) error {
		if left--; left >= 0 {
			return &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded"}
		}
		return nil
	}
	got, err := c.adapter().Read(t.Context(), here, []string{"a"})
	if err != nil || got[0].Status != rollout.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	if c.slept != 31e9 {
		t.Errorf("it slept %s, want 1+2+4+8+16 s", c.slept)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.fail = func(string) error { return &smithy.GenericAPIError{Code: "Throttling"} }
	before := len(c.calls)
	if _, err := c.adapter().Read(ctx, here, []string{"a"}); err == nil || len(c.calls) > before+1 {
		t.Errorf("a context that has ended: %v after %d calls", err, len(c.calls)-before)
	}
	if transient.IsErrorRetryable(context.Canceled) == aws.TrueTernary || transient.IsErrorRetryable(errors.New("x")) == aws.TrueTernary {
		t.Error("what will not pass counts as transient")
	}
}
