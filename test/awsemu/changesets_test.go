package awsemu_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
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
