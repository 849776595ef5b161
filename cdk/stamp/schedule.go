package stamp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"cellwall.dev/cellwall/internal/fleet"
)

// How a tick that the slice did not take, or do, is given again. It is patient, since the consumer passes over a tick
// that the next has overtaken; but no longer than Lambda keeps an event, which is 6 hours.
const (
	tickAttempts = 2 // after the first
	tickPatience = 6 * time.Hour
)

// newSchedules has the shard's slice invoked by the fleet's schedules, each by a rule of its own at this shard's
// offset. As with the keeper's, the rule is of the bare CloudFormation type, and the permission knows it by its derived
// ARN, so that createStateLast can have it wait.
func newSchedules(st awscdk.Stack, p *plan, s shardPlan, slice awslambda.Alias) {
	for _, schedule := range p.fleet.Shard.Schedules {
		offset := schedule.Offset(p.cell.Name, s.id)
		awsevents.NewCfnRule(st, str("Schedule-"+schedule.Name), &awsevents.CfnRuleProps{
			Name:               str(s.names.Schedule(schedule.Name)),
			Description:        str("Schedule " + schedule.Name + " of shard " + s.id + " of cell " + p.cell.Name + " of " + p.fleet.Service),
			ScheduleExpression: str(cron(schedule.Every, offset)),
			Targets: list(&awsevents.CfnRule_TargetProperty{
				Id: str("worker"), Arn: slice.FunctionArn(),
				InputTransformer: &awsevents.CfnRule_InputTransformerProperty{
					InputPathsMap: map[string]any{"time": "$.time"}, InputTemplate: str(tick(schedule, s.id, offset))},
				RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{MaximumRetryAttempts: num(tickAttempts), MaximumEventAgeInSeconds: num(int(min(schedule.Every, tickPatience).Seconds()))},
			}),
		})
		awslambda.NewCfnPermission(st, str("Scheduled-"+schedule.Name), &awslambda.CfnPermissionProps{
			FunctionName: slice.FunctionArn(), Action: str("lambda:InvokeFunction"), Principal: str("events.amazonaws.com"),
			SourceArn: str(p.arn("events", "rule/"+s.names.Schedule(schedule.Name)))})
	}
}

// tick is the event that a schedule invokes with, as shardkit.ParseTick reads it. EventBridge puts the rule's own time
// in, in quotes: the function's clock would tell another one when it is invoked again.
func tick(s fleet.Schedule, shard string, offset time.Duration) string {
	name, _ := json.Marshal(s.Name) // strings encode
	id, _ := json.Marshal(shard)
	return fmt.Sprintf(`{"tick":{"name":%s,"shard":%s,"every":%d,"offset":%d,"time":<time>}}`, name, id, s.Every/time.Second, offset/time.Second)
}

// cron is the expression of what fires every so often, from offset after midnight UTC on. every divides an hour, or is
// of hours and divides a day, so that the times are as far apart over midnight as within the day.
func cron(every, offset time.Duration) string {
	minutes, hours := fmt.Sprint(int(offset/time.Minute)%60), "*"
	switch {
	case every == time.Minute:
		minutes = "*"
	case every < time.Hour:
		minutes = fmt.Sprintf("%s/%d", minutes, every/time.Minute)
	case every == 24*time.Hour:
		hours = fmt.Sprint(int(offset / time.Hour))
	case every > time.Hour:
		hours = fmt.Sprintf("%d/%d", offset/time.Hour, every/time.Hour)
	}
	return "cron(" + minutes + " " + hours + " * * ? *)"
}
