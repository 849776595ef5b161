package rollout

import (
	"testing"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

type cfnTag = cfn.Tag

func TestRollout(t *testing.T) {
	if testing.Short() {
		t.Skip("deploys a fleet and rolls it out, which takes minutes: left out by -short")
	}
	w := newWorld(t, "v1", "v2")
	w.busy(t)
	w.runs(t, "v1", canary, second, third)
	w.templates(t, "v1", canary, second, third)
	t.Log(w.events(t, second))
	w.ring(t, second, "s01/errors", "ALARM")
}
