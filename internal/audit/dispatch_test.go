package audit_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestDispatchQueueIsMeant: the queue of jobs that the router places again may be shared, with its dead letters, by
// its tag or its name; another queue, or one of a shard with that tag, may not.
func TestDispatchQueueIsMeant(t *testing.T) {
	tagged := []object{{"Key": "cellwall:role", "Value": "dispatch"}}
	for name, c := range map[string]struct {
		stack       string
		queue, dead object
		meant       bool
	}{
		"by name":     {core, object{"QueueName": "orders-eu-1-dispatch"}, object{"QueueName": "orders-eu-1-dispatch-dead"}, true},
		"by name, g2": {core, object{"QueueName": "orders-eu-1-dispatch-g2"}, object{"QueueName": "orders-eu-1-dispatch-dead-g2"}, true},
		"by tag":      {core, object{"QueueName": "later", "Tags": tagged}, object{"QueueName": "never", "Tags": tagged}, true},
		"neither":     {core, object{"QueueName": "orders-eu-1-work"}, object{"QueueName": "orders-eu-1-work-dead"}, false},
		"of one cell": {core, object{"QueueName": "orders-eu-2-dispatch"}, object{"QueueName": "orders-eu-2-dispatch-dead"}, false},
		"of a shard":  {shardStackName("s02"), object{"QueueName": "later", "Tags": tagged}, object{"QueueName": "never", "Tags": tagged}, false},
	} {
		s, place := cleanFleet(false)
		c.queue["RedrivePolicy"] = object{"deadLetterTargetArn": object{"Fn::GetAtt": []any{"Dead", "Arn"}}}
		s.put(c.stack, "Dead", "AWS::SQS::Queue", c.dead)
		s.put(c.stack, "Queue", "AWS::SQS::Queue", c.queue)
		for _, sh := range []string{"s01", "s03"} {
			st, p := place(sh)
			setenvAs(s.section(st, "Resources")[p+"Worker"].(object), "QUEUE_NAME", c.queue["QueueName"])
		}
		found := 0
		for _, f := range s.run(t).Findings {
			if f.Resource == nil || f.Resource.LogicalID != "Queue" && f.Resource.LogicalID != "Dead" {
				continue
			}
			found++
			if f.Rule != "SD003" || (f.Level == audit.Info) != c.meant {
				t.Errorf("%s: %s %s: %s", name, f.Level, f.Rule, f.Message)
			}
		}
		if found != 2 {
			t.Errorf("%s: %d of the two queues are found", name, found)
		}
	}
}
