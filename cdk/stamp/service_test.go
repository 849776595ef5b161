package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReplacements: whatever replaces instances leaves as many as the group wants, at least its minimum: a refresh
// launches first, and counts a new instance once it had the time that it may take to start.
func TestReplacements(t *testing.T) {
	for _, name := range []string{"per-shard", "grouped", "http-only", "everything"} {
		group := shape(t, name)[shardPath].one(t, "AWS::AutoScaling::AutoScalingGroup")
		want := map[string]any{"MinHealthyPercentage": 100.0, "MaxHealthyPercentage": 110.0}
		if d := cmp.Diff(want, group.at("InstanceMaintenancePolicy")); d != "" {
			t.Errorf("%s: the policy (-want +got):\n%s", name, d)
		}
		if warm, grace := group.at("DefaultInstanceWarmup"), group.at("HealthCheckGracePeriod"); warm != float64(startTime) || grace != warm {
			t.Errorf("%s: an instance is warm after %v s and judged after %v s, want %d", name, warm, grace, startTime)
		}
		if group.at("DesiredCapacity") != nil {
			t.Errorf("%s: a deployment sets the number of instances back to %v", name, group.at("DesiredCapacity"))
		}
	}
}
