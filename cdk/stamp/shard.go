package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// buildShard fills one shard's stack with the parts that the fleet turns on. Nothing in it names a
// resource of another shard.
func buildShard(st awscdk.Stack, p *plan, s shardPlan) {
	parts := p.fleet.Shard
	key := newShardKey(st, p, s)
	if parts.Table != nil {
		newTable(st, "Table", s.names.Table(), parts.Table, key)
	}
	if parts.Bucket != nil {
		newBucket(st, "Bucket", s.names.Bucket(p.cell.Account, p.cell.Region), key)
	}
	if parts.Lambda != nil {
		slice := newSlice(st, p, s, *parts.Lambda, key)
		newSchedules(st, p, s, slice)
		if parts.Queue != nil {
			newQueue(st, s, *parts.Queue, *parts.Lambda, slice, key)
		}
	}
	var targets watched
	if p.service != nil {
		targets = newService(st, p, s, key)
	}
	newShardAlarms(st, p, s, targets)
	createStateLast(st)
}

// newSlice is the shard's Lambda function with its own part of the account's concurrency, by its
// alias. It is outside the cell's network: what it reaches are AWS's regional services.
func newSlice(st awscdk.Stack, p *plan, s shardPlan, l fleet.Lambda, key awskms.Key) awslambda.Alias {
	logs := newEncryptedLogGroup(st, "WorkerLogs", s.names.LogGroup("worker"), key)
	role := newStateRole(st, "WorkerRole", "lambda.amazonaws.com", "Lambda slice of shard "+s.id+" of cell "+p.cell.Name, p, s, key)
	logs.GrantWrite(role)
	fn := awslambda.NewFunction(st, str("Worker"), &awslambda.FunctionProps{
		FunctionName:                 str(s.names.Worker()),
		Description:                  str("Shard " + s.id + " of cell " + p.cell.Name + " of " + p.fleet.Service),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 architecture(p.arch),
		Handler:                      str("bootstrap"),
		Code:                         awslambda.Code_FromAsset(str(p.workerDir), nil),
		Role:                         role,
		LogGroup:                     logs,
		MemorySize:                   num(l.Memory),
		Timeout:                      seconds(l.Timeout),
		ReservedConcurrentExecutions: num(l.ReservedConcurrency),
		RecursiveLoop:                p.recursion(),
		Environment:                  variables(s.env),
	})
	live := &awslambda.AliasProps{AliasName: str(names.Alias), Version: fn.CurrentVersion()}
	if len(p.fleet.Shard.Schedules) > 0 { // nothing else invokes it without waiting for the answer
		live.RetryAttempts, live.MaxEventAge = num(tickAttempts), seconds(int(tickPatience.Seconds()))
	}
	return awslambda.NewAlias(st, str("WorkerLive"), live)
}

// batchSize is the most messages that one invocation takes. With no batch window, the slice takes
// what is there.
const batchSize = 10

// newQueue is the shard's queue, what it gives up on, and the slice as its consumer. The queues stay
// when the stack goes: a job that was accepted is still there to be looked at.
func newQueue(st awscdk.Stack, s shardPlan, q fleet.Queue, l fleet.Lambda, slice awslambda.Alias, key awskms.Key) {
	dead := newJobQueue(st, "DeadLetters", s.names.DeadLetters(), &awssqs.QueueProps{
		RetentionPeriod: days(letterDays)}, key)
	queue := newJobQueue(st, "Queue", s.names.Queue(), &awssqs.QueueProps{
		RetentionPeriod: days(jobDays),
		// Six times the function's time-out, as AWS advises for event sources: a throttled batch is
		// tried again before its messages show up a second time.
		VisibilityTimeout: seconds(6 * l.Timeout),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: num(q.MaxReceive)}}, key)
	slice.AddEventSource(awslambdaeventsources.NewSqsEventSource(queue, &awslambdaeventsources.SqsEventSourceProps{
		BatchSize: num(batchSize), MaxConcurrency: num(q.Consumers), ReportBatchItemFailures: yes}))
}
