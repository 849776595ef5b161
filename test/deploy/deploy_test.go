package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeployment is the life of the sample fleet: its cells are deployed one after another, changed while
// tenants are served, and one is destroyed. After each step everything that is there is compared with what the
// fleet says. Its parts build on each other and run in order.
func TestDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("deploys a whole fleet, which takes minutes: left out by -short")
	}
	w := newWorld(t, "")
	first := w.synth(t, w.release)
	// The directory does not depend on how many shards there are.
	few := w.describe(t, w.dist, manyShards.ReplaceAllString(w.sample(t), "shards: 4"))
	withReplicas := w.synth(t, few, "-c", "newReplicas="+strings.Join(w.fleet.Directory.Replicas, ","))
	w.bootstrap(t)
	assembly := first(t)
	second := w.second(t)
	grown := w.synth(t, second)
	t.Run("DirectoryInTwoSteps", func(t *testing.T) { w.directoryInTwoSteps(t, assembly, withReplicas(t)) })
	t.Run("FirstDeploymentFails", func(t *testing.T) { w.firstDeploymentFails(t, assembly) })
	w.deployCell(t, assembly, canary)
	t.Run("CanaryStands", w.standing)
	t.Run("Directory", w.directory)
	t.Run("Traffic", w.traffic)
	t.Run("Dispatch", w.dispatch)
	t.Run("Keeper", w.keeper)
	t.Run("SameAssemblyAgain", func(t *testing.T) { w.sameAssemblyAgain(t, assembly) })
	for _, c := range w.fleet.Cells {
		if !slices.Contains(w.cells, c.Name) {
			w.deployCell(t, assembly, c.Name)
		}
	}
	third := w.third(t, second)
	smaller := w.synth(t, third)
	fourth := w.fourth(t, second, third)
	again := w.synth(t, fourth)
	t.Run("FrontDoor", func(t *testing.T) { w.frontDoor(t, assembly) })
	t.Run("FleetStands", w.standing)
	t.Run("OtherCellsServe", w.otherCellsServe)
	t.Run("FleetChanges", func(t *testing.T) { w.fleetChanges(t, second, assembly, grown(t)) })
	t.Run("ChangedFleetStands", w.standing)
	t.Run("CellGoes", func(t *testing.T) { w.cellGoes(t, third, grown(t), smaller(t)) })
	t.Run("OthersStand", w.standing)
	t.Run("CellComesAgain", func(t *testing.T) { w.cellAgain(t, fourth, smaller(t), again(t)) })
	t.Run("AllStandAgain", w.standing)
	t.Run("UnknownTypeFails", w.unknownTypeFails)
	t.Run("MissingParameterFails", w.missingParameterFails)
}

var manyShards = regexp.MustCompile(`shards: \d+`)

// deployCell deploys all stacks of a cell.
func (w *world) deployCell(t *testing.T, assembly, cell string) {
	t.Helper()
	w.deploy(t, assembly, cell+"/*")
	w.cells = append(w.cells, cell)
}
