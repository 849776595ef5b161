package deploy

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/google/go-cmp/cmp"

	changes "cellwall.dev/cellwall/internal/change"
	"cellwall.dev/cellwall/internal/cli"
)

// fate is what happens to a resource.
type fate struct {
	Type string
	Kind changes.Kind
}

// fates are what happens to resources, by stack, as in ACCOUNT/REGION/NAME, and logical id.
type fates map[string]map[string]fate

// types are the types of the resources to which something happens, by stack.
func (f fates) types() map[string][]string {
	types := map[string][]string{}
	for stack, resources := range f {
		for _, r := range resources {
			if !slices.Contains(types[stack], r.Type) {
				types[stack] = append(types[stack], r.Type)
			}
		}
		slices.Sort(types[stack])
	}
	return types
}

// foretold asks `cellwall fleet diff` what deploying an assembly over another one does; of the release that it is of,
// there must be no reason not to deploy it.
func (w *world) foretold(t *testing.T, next *release, old, assembly string) fates {
	t.Helper()
	var out, errs bytes.Buffer
	args := []string{"fleet", "diff", old, assembly, "--json", "--fleet", filepath.Join(next.dir, "fleet.yaml")}
	if code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs); code != cli.ExitDone {
		t.Fatalf("cellwall %s: status %d\n%s%s", strings.Join(args, " "), code, errs.String(), out.String())
	}
	var report changes.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	all := fates{}
	for _, s := range report.Stacks {
		stack := strings.Join([]string{s.Account, s.Region, s.Name}, "/")
		all[stack] = map[string]fate{}
		for _, r := range s.Resources {
			if r.Was != "" { // one that comes for another is added, and the other removed
				all[stack][r.Was] = fate{r.Type, changes.Removed}
				r.Kind = changes.Added
			}
			all[stack][r.ID] = fate{r.Type, r.Kind}
		}
	}
	return all
}

// asForetold compares what fleet diff said with what CloudFormation did.
func asForetold(t *testing.T, said, done fates) {
	t.Helper()
	if diff := cmp.Diff(said, done); diff != "" {
		t.Errorf("fleet diff said one thing and CloudFormation did another (-said +done):\n%s", diff)
	}
	resources := map[changes.Kind]int{}
	for _, stack := range done {
		for _, r := range stack {
			resources[r.Kind]++
		}
	}
	t.Logf("in %d stacks, all as foretold but for what is said above: %v", len(done), resources)
}

// seen is a stack and how many events it has had.
type seen struct {
	at     place
	name   string // as fates have it
	events int
}

// look is how many events each stack that stands has had, by the stack's id.
func (w *world) look(t *testing.T) map[string]seen {
	t.Helper()
	all := map[string]seen{}
	for at := range w.places() {
		client := cloudformation.NewFromConfig(w.at(t, at))
		stacks, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stacks.Stacks {
			out, err := client.DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: s.StackId})
			if err != nil {
				t.Fatal(err)
			}
			all[*s.StackId] = seen{at, strings.Join([]string{at.account, at.region, *s.StackName}, "/"), len(out.StackEvents)}
		}
	}
	return all
}

// happened is what the stacks' events tell of the time since a look, also those of stacks that went.
func (w *world) happened(t *testing.T, since map[string]seen) fates {
	t.Helper()
	now := w.look(t)
	all := fates{}
	for id, stack := range now {
		if before, ok := since[id]; ok && before.events == stack.events {
			continue
		}
		w.tell(t, all, id, stack, since[id].events)
	}
	for id, stack := range since {
		if _, ok := now[id]; !ok {
			w.tell(t, all, id, stack, stack.events)
		}
	}
	maps.DeleteFunc(all, func(_ string, resources map[string]fate) bool { return len(resources) == 0 })
	return all
}

// tell adds what the events of a stack tell, but for the first ones.
func (w *world) tell(t *testing.T, all fates, id string, stack seen, known int) {
	t.Helper()
	out, err := cloudformation.NewFromConfig(w.at(t, stack.at)).DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: &id})
	if err != nil {
		t.Fatal(err)
	}
	if all[stack.name] == nil {
		all[stack.name] = map[string]fate{}
	}
	resources, physical := all[stack.name], map[string]string{}
	for _, e := range slices.Backward(out.StackEvents[:len(out.StackEvents)-known]) { // the newest is the first
		logical, kind := aws.ToString(e.LogicalResourceId), changes.Kind("")
		switch status := string(e.ResourceStatus); {
		case aws.ToString(e.PhysicalResourceId) == id: // the stack itself
		case status == "CREATE_COMPLETE":
			kind = changes.Added
		case status == "UPDATE_IN_PROGRESS":
			physical[logical] = aws.ToString(e.PhysicalResourceId)
		case status == "UPDATE_COMPLETE" && aws.ToString(e.PhysicalResourceId) == physical[logical]:
			kind = changes.Changed
		case status == "UPDATE_COMPLETE":
			kind = changes.Replaced
		case (status == "DELETE_COMPLETE" || status == "DELETE_SKIPPED") && resources[logical].Kind == "": // else it was replaced
			kind = changes.Removed
		case strings.HasSuffix(status, "_FAILED"):
			t.Errorf("%s: %s is %s: %s", stack.name, logical, status, aws.ToString(e.ResourceStatusReason))
		}
		if kind != "" {
			resources[logical] = fate{aws.ToString(e.ResourceType), kind}
		}
	}
}
