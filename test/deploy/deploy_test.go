package deploy

import "testing"

// TestDeployment is one deployment of the sample fleet, looked at from all sides. Its parts build on each
// other and run in order.
func TestDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("deploys a whole cell, which takes minutes: left out by -short")
	}
	w := newWorld(t)
	assembly := w.synth(t)
	w.bootstrap(t, homeAccount, homeRegion)
	t.Run("DirectoryInTwoSteps", func(t *testing.T) { w.directoryInTwoSteps(t, assembly) })
	t.Run("FirstDeploymentFails", func(t *testing.T) { w.firstDeploymentFails(t, assembly) })
	w.deploy(t, assembly, "global", canary+"/*")

	t.Run("StacksAreComplete", w.stacksAreComplete)
	t.Run("NothingOfAnotherCell", w.nothingOfAnotherCell)
	t.Run("Directory", w.directory)
	t.Run("Core", w.core)
	for _, shard := range w.cell(t, canary).Shards.IDs() {
		t.Run("Shard/"+shard, func(t *testing.T) { w.shard(t, shard) })
	}
	t.Run("Traffic", w.traffic)
	t.Run("Dispatch", w.dispatch)
	t.Run("Keeper", w.keeper)
	t.Run("DirectoryContract", w.directoryContract)
	t.Run("SameAssemblyAgain", func(t *testing.T) { w.sameAssemblyAgain(t, assembly) })
	t.Run("FrontDoor", func(t *testing.T) { w.frontDoor(t, assembly) })
	t.Run("OneShardMore", w.oneShardMore)
	t.Run("UnknownTypeFails", w.unknownTypeFails)
	t.Run("MissingParameterFails", w.missingParameterFails)
}
