package awsemu_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

const otherAccount, otherRegion = "222222222222", "us-east-1"

func TestFunctionsAreFoundByARN(t *testing.T) {
	upload(t)
	const name = "found-by-arn"
	s := newStacks(t)
	if got := s.create(t, name, functionTemplate(name, 2, "")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	away := lambda.NewFromConfig(use(t).Config(t, otherAccount, otherRegion))
	arn := "arn:aws:lambda:" + region + ":" + account + ":function:" + name
	out, err := away.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &arn, Qualifier: aws.String("live"), Payload: []byte(`{"do":"say"}`)})
	if err != nil || out.StatusCode != 200 {
		t.Errorf("by ARN: %v, %v", out, err)
	}
	if n := use(t).Invocations(t)[arn]; n != 1 {
		t.Errorf("the function was invoked %d times", n)
	}
	if _, err := away.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(name)}); err == nil {
		t.Error("by name the other account's function is found, too")
	}
}

func TestReplicasLeadToTheirTable(t *testing.T) {
	const name = "with-replica"
	s := newStacks(t)
	table := func(replicas string) string {
		return `"T":{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"TableName":"` + name + `","BillingMode":"PAY_PER_REQUEST",
			"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
			"Replicas":[` + replicas + `]}}`
	}
	const home, replica = `{"Region":"` + region + `"}`, `{"Region":"` + otherRegion + `"}`
	if got := s.create(t, name, table(home+","+replica)); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	client := dynamodb.NewFromConfig(use(t).Config(t, account, region))
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(name), Item: item("x")}); err != nil {
		t.Fatal(err)
	}
	away := dynamodb.NewFromConfig(use(t).Config(t, otherAccount, otherRegion))
	read := &dynamodb.GetItemInput{TableName: aws.String("arn:aws:dynamodb:" + otherRegion + ":" + account + ":table/" + name), Key: item("x")}
	if out, err := away.GetItem(t.Context(), read); err != nil || len(out.Item) == 0 {
		t.Errorf("by the replica's ARN: %v, %v", out, err)
	}
	if got := s.update(t, name, table(home)); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, name))
	}
	if _, err := away.GetItem(t.Context(), read); err == nil {
		t.Error("the replica is found after it is gone")
	}
}

// TestRolesComeAndGo makes and deletes roles beside a request of a role, for which stock moto walks through all.
func TestRolesComeAndGo(t *testing.T) {
	config := use(t).Config(t, "333333333333", region) // an account of its own: roles slow down whoever comes later
	once := func(o *iam.Options) { o.Retryer = aws.NopRetryer{} }
	roles := iam.NewFromConfig(config, once)
	create := func(name string) error {
		_, err := roles.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"lambda.amazonaws.com"}}]}`)})
		return unlessLost(err)
	}
	for n := range 200 { // a long walk
		if err := create(fmt.Sprintf("stays-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			name := fmt.Sprintf("comes-and-goes-%d", n)
			for range 50 {
				err := create(name)
				if err == nil {
					_, err = roles.DeleteRole(t.Context(), &iam.DeleteRoleInput{RoleName: &name})
				}
				if unlessLost(err) != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestInstancesStartTogether launches instances in one subnet at once, each of which gets an address of its own.
func TestInstancesStartTogether(t *testing.T) {
	config := use(t).Config(t, "333333333333", region)
	machines := ec2.NewFromConfig(config, func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
	vpc, err := machines.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.30.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := machines.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String("10.30.0.0/20")})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	taken := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := 0; n < 5; n++ {
				started, err := machines.RunInstances(t.Context(), &ec2.RunInstancesInput{
					ImageId: aws.String("ami-0123456789abcdef0"), MinCount: aws.Int32(8), MaxCount: aws.Int32(8), SubnetId: subnet.Subnet.SubnetId})
				if unlessLost(err) != nil {
					t.Error(err)
					return
				}
				if err != nil { // nobody knows their addresses
					n--
					continue
				}
				mu.Lock()
				for _, i := range started.Instances {
					taken[aws.ToString(i.PrivateIpAddress)] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(taken) != 320 {
		t.Errorf("320 instances have %d addresses", len(taken))
	}
}
