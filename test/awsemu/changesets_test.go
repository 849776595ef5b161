package awsemu_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"cellwall.dev/cellwall/test/awsemu"
)

func TestChangeSetsBelongToTheirStacks(t *testing.T) {
	s := newStacks(t)
	names := []string{"set-a", "set-b", "set-c"}
	for _, name := range names {
		_, err := s.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
			StackName: &name, ChangeSetName: aws.String("deploy"), ChangeSetType: cfn.ChangeSetTypeCreate,
			TemplateBody: aws.String(template(`"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"` + name + `"}}`)),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if _, err := s.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: &name, ChangeSetName: aws.String("deploy")}); err != nil {
			t.Fatal(err)
		}
		if queueURL(t, name) == "" || s.status(t, name) != "CREATE_COMPLETE" {
			t.Errorf("stack %s is %s, and its queue is at %q", name, s.status(t, name), queueURL(t, name))
		}
	}
	_, err := s.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{StackName: aws.String("set-a"), ChangeSetName: aws.String("other")})
	var missing *cfn.ChangeSetNotFoundException
	if !errors.As(err, &missing) {
		t.Errorf("a change set that is not there gives %v", err)
	}
}

// TestChangeSetsGoWithTheirStacks: after a failed first deployment the CDK deletes the stack, and makes one of
// the same name with a change set of the same name.
func TestChangeSetsGoWithTheirStacks(t *testing.T) {
	s, name := newStacks(t), aws.String("set-again")
	for _, queue := range []string{"set-first", "set-second"} {
		if _, err := s.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
			StackName: name, ChangeSetName: aws.String("deploy"), ChangeSetType: cfn.ChangeSetTypeCreate,
			TemplateBody: aws.String(template(`"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"` + queue + `"}}`)),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: name, ChangeSetName: aws.String("deploy")}); err != nil {
			t.Fatal(err)
		}
		if queueURL(t, queue) == "" {
			t.Errorf("%s was not made", queue)
		}
		if _, err := s.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: name}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObstacles: a stack that is held is in progress until it is let go, and takes no other change; one that is to fail is
// rolled back, or stays stuck. When one change set is executed, the stack's others are gone.
func TestObstacles(t *testing.T) {
	s, name := newStacks(t), aws.String("obstructed")
	queue := func(seconds string) string {
		return `"Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"obstructed","VisibilityTimeout":` + seconds + `}}`
	}
	change := func(set, seconds string) error {
		_, err := s.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{StackName: name, ChangeSetName: &set, TemplateBody: aws.String(template(queue(seconds)))})
		return err
	}
	execute := func(set string) error {
		_, err := s.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: name, ChangeSetName: &set})
		return err
	}
	is := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); s.status(t, *name) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the stack is %s, want %s: %s", s.status(t, *name), want, s.reasons(t, *name))
			}
		}
	}
	if got := s.create(t, *name, queue("10")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", got)
	}
	for _, set := range []string{"one", "two"} {
		if err := change(set, "20"); err != nil {
			t.Fatal(err)
		}
	}
	use(t).Obstruct(t, *name, awsemu.Hold)
	if err := execute("one"); err != nil {
		t.Fatal(err)
	}
	is("UPDATE_IN_PROGRESS")
	if err := change("three", "30"); err == nil {
		t.Error("a stack in progress takes a change set")
	}
	var missing *cfn.ChangeSetNotFoundException
	if err := execute("two"); !errors.As(err, &missing) {
		t.Errorf("the other change set gives %v", err)
	}
	use(t).Obstruct(t, *name)
	is("UPDATE_COMPLETE")
	for _, c := range []struct {
		obstacles []awsemu.Obstacle
		want      string
	}{{[]awsemu.Obstacle{awsemu.Fail}, "UPDATE_ROLLBACK_COMPLETE"}, {[]awsemu.Obstacle{awsemu.Fail, awsemu.Stuck}, "UPDATE_ROLLBACK_FAILED"}} {
		use(t).Obstruct(t, *name, c.obstacles...)
		if err := errors.Join(change("fails", "40"), execute("fails")); err != nil {
			t.Fatal(err)
		}
		is(c.want)
		set, err := s.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{StackName: name, ChangeSetName: aws.String("fails")})
		if err != nil || set.ExecutionStatus != cfn.ExecutionStatusExecuteFailed {
			t.Errorf("the change set that failed is %+v, %v", set, err)
		}
		if _, err := s.DeleteChangeSet(t.Context(), &cloudformation.DeleteChangeSetInput{StackName: name, ChangeSetName: aws.String("fails")}); err != nil {
			t.Fatal(err)
		}
	}
	use(t).Obstruct(t, *name)
	if err := change("four", "50"); err == nil {
		t.Error("a stack whose rollback failed takes a change set")
	}
}
