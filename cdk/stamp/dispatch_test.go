package stamp

import (
	"strings"
	"testing"
)

// TestJobsAreKept: every queue says for how long, a week, and its dead letters for longer, since SQS counts both from when
// the job was sent; a job's record outlives both.
func TestJobsAreKept(t *testing.T) {
	const day = 86_400.0
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			queues := a[path].Template.Resources
			for id, q := range queues {
				if q.Type != "AWS::SQS::Queue" {
					continue
				}
				want := 14 * day
				if dead, ok := q.at("RedrivePolicy", "deadLetterTargetArn", "Fn::GetAtt", 0).(string); ok {
					if want = 7 * day; queues[dead].at("MessageRetentionPeriod") != 14*day {
						t.Errorf("%s: the dead letters of %s are kept for %v s", path, id, queues[dead].at("MessageRetentionPeriod"))
					}
				}
				if q.at("MessageRetentionPeriod") != want {
					t.Errorf("%s: %s keeps jobs for %v s, want %v", path, id, q.at("MessageRetentionPeriod"), want)
				}
			}
		}
	})
}

// TestRecursion: jobs that lead to jobs pass through router and slice again and again, which Lambda lets them; where there
// are none it stops what comes back.
func TestRecursion(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			for _, fn := range a[path].of("AWS::Lambda::Function") {
				name := fn.at("FunctionName").(string)
				var want any
				if strings.HasSuffix(name, "-router") || strings.HasSuffix(name, "-worker") {
					if want = "Terminate"; len(a["eu-canary/core"].of("AWS::SQS::Queue")) > 0 {
						want = "Allow"
					}
				}
				if got := fn.at("RecursiveLoop"); got != want {
					t.Errorf("%s: RecursiveLoop is %v, want %v", name, got, want)
				}
			}
		}
	})
}

// TestDispatch: the queue of jobs that the router places again, its redrive and its consumer.
func TestDispatch(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	queue := core.named(t, "AWS::SQS::Queue", "QueueName", "orders-eu-canary-dispatch")
	dead := core.named(t, "AWS::SQS::Queue", "QueueName", "orders-eu-canary-dispatch-dead")
	router := core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-router")
	if got := queue.at("VisibilityTimeout").(float64); got < 6*router.at("Timeout").(float64) {
		t.Errorf("messages stay hidden for %v s, and the router takes %v s", got, router.at("Timeout"))
	}
	if got := text(queue.at("RedrivePolicy")); got != `{"deadLetterTargetArn":{"Fn::GetAtt":["DispatchDeadLetters55D2D538","Arn"]},"maxReceiveCount":10}` {
		t.Errorf("redrive is %s", got)
	}
	if dead.at("MessageRetentionPeriod") != 1_209_600.0 {
		t.Errorf("dead letters are kept for %v s", dead.at("MessageRetentionPeriod"))
	}
	source := core.one(t, "AWS::Lambda::EventSourceMapping")
	if got := text(source.at("EventSourceArn")); got != `{"Fn::GetAtt":["DispatchDB0A2E2F","Arn"]}` || source.at("ScalingConfig", "MaximumConcurrency") != 2.0 ||
		source.at("BatchSize") != 10.0 || text(source.at("FunctionResponseTypes")) != `["ReportBatchItemFailures"]` ||
		!strings.Contains(text(source.at("FunctionName")), `{"Ref":"RouterLive07757374"}`) || !strings.Contains(text(source.at("FunctionName")), ":live") {
		t.Errorf("the event source is %s", text(source.Properties))
	}
	for _, q := range core.of("AWS::SQS::Queue") {
		if q.DeletionPolicy != "RetainExceptOnCreate" || q.UpdateReplacePolicy != "Retain" || q.at("SqsManagedSseEnabled") != true ||
			text(q.at("Tags")) != `[{"Key":"cellwall:role","Value":"dispatch"}]` {
			t.Errorf("%v: %s, %s, %s", q.at("QueueName"), q.DeletionPolicy, q.UpdateReplacePolicy, text(q.Properties))
		}
	}
	policies := core.of("AWS::SQS::QueuePolicy")
	for _, p := range policies {
		if got := text(p.Properties); !strings.Contains(got, `{"Bool":{"aws:SecureTransport":"false"}}`) {
			t.Errorf("a queue takes requests without TLS: %s", got)
		}
	}
	if len(policies) != 2 {
		t.Errorf("%d queue policies", len(policies))
	}
	// Without queues there are no jobs.
	for _, name := range []string{"lambda-only", "http-only"} {
		core := shape(t, name)["eu-canary/core"]
		for _, kind := range []string{"AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping"} {
			if n := len(core.of(kind)); n > 0 {
				t.Errorf("%s has %d of %s in the core", name, n, kind)
			}
		}
	}
}
