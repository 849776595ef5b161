package stamp

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRollingUpdate: while CloudFormation replaces instances one by one nothing else launches or ends any, and none is
// ended for its health before its start script has had its say.
func TestRollingUpdate(t *testing.T) {
	for _, name := range []string{"per-shard", "grouped", "http-only", "everything"} {
		group := shape(t, name)[shardPath].one(t, "AWS::AutoScaling::AutoScalingGroup")
		rolling, _ := group.UpdatePolicy["AutoScalingRollingUpdate"].(map[string]any)
		suspended := texts(rolling["SuspendProcesses"])
		slices.Sort(suspended)
		if want := []string{"AZRebalance", "AlarmNotification", "HealthCheck", "ReplaceUnhealthy", "ScheduledActions"}; !slices.Equal(suspended, want) {
			t.Errorf("%s: an update suspends %q, want %q", name, suspended, want)
		}
		// The archive in ten attempts, and sixty questions of two seconds with two between them.
		if grace := group.at("HealthCheckGracePeriod").(float64); grace < 10*3+60*(2+2) || grace > signalTime {
			t.Errorf("%s: an instance is judged after %v s", name, grace)
		}
	}
}

// TestReplacements: whatever replaces instances leaves as many as the group wants, at least its minimum: a refresh
// launches first, and counts a new instance once it had the time that it may take to start.
func TestReplacements(t *testing.T) {
	for _, name := range []string{"per-shard", "grouped", "http-only", "everything"} {
		group := shape(t, name)[shardPath].one(t, "AWS::AutoScaling::AutoScalingGroup")
		want := map[string]any{"MinHealthyPercentage": 100.0, "MaxHealthyPercentage": 110.0}
		if d := cmp.Diff(want, group.at("InstanceMaintenancePolicy")); d != "" {
			t.Errorf("%s: the policy (-want +got):\n%s", name, d)
		}
		if warm, grace := group.at("DefaultInstanceWarmup"), group.at("HealthCheckGracePeriod"); warm != float64(startTime) || grace != float64(graceTime) {
			t.Errorf("%s: an instance is warm after %v s and judged after %v s, want %d and %d", name, warm, grace, startTime, graceTime)
		}
		if group.at("DesiredCapacity") != nil {
			t.Errorf("%s: a deployment sets the number of instances back to %v", name, group.at("DesiredCapacity"))
		}
	}
}
