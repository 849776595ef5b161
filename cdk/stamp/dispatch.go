package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// How the router consumes the dispatch queue. What waits there is rare, and requests need the router more.
const (
	dispatchConcurrency = 2
	dispatchReceive     = 10
)

// newDispatch is the queue of jobs that the router places again: those of tenants that a shard did not hold, and
// those that shards send to other tenants. It is shared by the cell's shards by design: shards never call each other.
func newDispatch(core awscdk.Stack, p *plan, router awslambda.Alias) {
	dead := newJobQueue(core, "DispatchDeadLetters", p.names.DispatchDeadLetters(), &awssqs.QueueProps{RetentionPeriod: days(letterDays)}, nil)
	queue := newJobQueue(core, "Dispatch", p.names.Dispatch(), &awssqs.QueueProps{
		RetentionPeriod:   days(jobDays),
		VisibilityTimeout: seconds(6 * routerTimeout),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: num(dispatchReceive)}}, nil)
	for _, q := range []awssqs.Queue{dead, queue} {
		awscdk.Tags_Of(q).Add(str(names.TagRole), str("dispatch"), nil)
	}
	router.AddEventSource(awslambdaeventsources.NewSqsEventSource(queue, &awslambdaeventsources.SqsEventSourceProps{
		BatchSize: num(batchSize), MaxConcurrency: num(dispatchConcurrency), ReportBatchItemFailures: yes}))
}

// How many days a queue of jobs keeps one, and that of the dead letters. SQS counts both from when the job came into the
// first (Amazon SQS developer guide, "Setting-up dead-letter queue retention"), so that the second must be longer: it is
// the longest that there is, since somebody has to look. A week is time to mend a consumer that takes nothing; what
// nobody takes until then is deleted, and no dead letter tells of it.
const (
	jobDays    = 7
	letterDays = 14
)

// newJobQueue is a queue of jobs: encrypted, over TLS only, and kept with this rule when the stack goes, since a job
// that was accepted must still be there to be looked at. key is nil for a key of AWS.
func newJobQueue(st awscdk.Stack, id, name string, props *awssqs.QueueProps, key awskms.Key) awssqs.Queue {
	props.QueueName, props.Encryption, props.EnforceSSL = str(name), awssqs.QueueEncryption_SQS_MANAGED, yes
	if key != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, key
	}
	props.RemovalPolicy = awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	queue := awssqs.NewQueue(st, str(id), props)
	keepPolicy(queue)
	return queue
}
