package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// parse is the template of a text.
func parse(t interface{ Fatal(...any) }, text string) template.Template {
	n, err := template.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := template.Parse(n)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

// stackOf is a stack of one account and region, with resources in JSON.
func stackOf(t interface{ Fatal(...any) }, name, resources string) audit.Stack {
	return audit.Stack{Name: name, Account: "111111111111", Region: "eu-west-1", File: name + ".json", Template: parse(t, `{"Resources": {`+resources+`}}`)}
}

// drawn is an arbitrary assembly: few names, so that two of them have much in common, and types and properties that
// the table knows and others that it does not.
func drawn() *rapid.Generator[audit.Input] {
	return rapid.Custom(func(t *rapid.T) audit.Input {
		var in audit.Input
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"orders-eu-1-core", "orders-eu-1-shard-s01", "orders-eu-1-shard-s02", "other"}), 0, 4, rapid.ID).Draw(t, "stacks") {
			var resources []string
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C"}), 0, 3, rapid.ID).Draw(t, "ids") {
				typ := rapid.SampledFrom([]string{"AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::EC2::VPC", "AWS::Lambda::Function", "Custom::Thing"}).Draw(t, "type")
				var properties []string
				for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"QueueName", "TableName", "CidrBlock", "Tags", "Unheard"}), 0, 3, rapid.ID).Draw(t, "properties") {
					v := rapid.SampledFrom([]string{`"x"`, `"y"`, `7`, `["x"]`, `["y"]`, `["x", "y"]`, `{"Ref": "A"}`, `{"Fn::GetAtt": ["B", "Arn"]}`, `{"k": "x"}`, `{"k": "y", "l": true}`}).Draw(t, "value")
					properties = append(properties, fmt.Sprintf("%q: %s", p, v))
				}
				keep := rapid.SampledFrom([]string{"", `, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"`, `, "DeletionPolicy": "Delete"`}).Draw(t, "policy")
				resources = append(resources, fmt.Sprintf(`%q: {"Type": %q, "Properties": {%s}%s}`, id, typ, strings.Join(properties, ","), keep))
			}
			in.Stacks = append(in.Stacks, stackOf(t, name, strings.Join(resources, ",")))
		}
		return in
	})
}

// what is the kind of each change of a report, by stack and logical id.
func what(r Report) map[string]*Resource {
	all := map[string]*Resource{}
	for i := range r.Stacks {
		for j := range r.Stacks[i].Resources {
			e := &r.Stacks[i].Resources[j]
			all[r.Stacks[i].Name+"."+e.ID] = e
		}
	}
	return all
}

// resources are those of an assembly, by stack and logical id.
func resources(in audit.Input) map[string]*template.Resource {
	all := map[string]*template.Resource{}
	for i := range in.Stacks {
		for j := range in.Stacks[i].Template.Resources {
			r := &in.Stacks[i].Template.Resources[j]
			all[in.Stacks[i].Name+"."+r.ID] = r
		}
	}
	return all
}

func TestGuaranteeNothingForNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawn().Draw(t, "assembly")
		b := audit.Input{Stacks: rapid.Permutation(a.Stacks).Draw(t, "order")}
		if r := Compare(a, b, Options{}); !r.Empty() || len(r.Billed)+len(r.Concurrency)+len(r.Refused) > 0 {
			t.Fatalf("it changes something: %+v", r)
		}
	})
}

func TestGuaranteeNeverSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn().Draw(t, "was"), drawn().Draw(t, "next")
		found := what(Compare(a, b, Options{}))
		was, next := resources(a), resources(b)
		for id, r := range next {
			old, e := was[id], found[id]
			switch {
			case old == nil && (e == nil || e.Kind != Added):
				t.Fatalf("%s is new, and the report has %+v", id, e)
			case old == nil:
			case old.Type != r.Type && (e == nil || e.Kind != Replaced):
				t.Fatalf("%s is of another type, and the report has %+v", id, e)
			case old.Type != r.Type:
			case !equal(old.Properties, r.Properties) && e == nil, old.DeletionPolicy != r.DeletionPolicy && e == nil:
				t.Fatalf("%s differs, and the report does not have it", id)
			}
			if old == nil || old.Type != r.Type {
				continue
			}
			for _, p := range []string{"Unheard", "CidrBlock"} { // of which no type but the VPC's has the second
				x, before := old.Properties.Get(p)
				y, after := r.Properties.Get(p)
				if before == after && equal(x, y) || e.Kind.rank() >= MayReplace.rank() {
					continue
				}
				t.Fatalf("%s changes its %s, of which nothing is known, and the report has %+v", id, p, e)
			}
		}
		for id := range was {
			if next[id] == nil && (found[id] == nil || found[id].Kind != Removed) {
				t.Fatalf("%s goes, and the report has %+v", id, found[id])
			}
		}
	})
}

func TestGuaranteeMirror(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn().Draw(t, "was"), drawn().Draw(t, "next")
		there, back := what(Compare(a, b, Options{})), what(Compare(b, a, Options{}))
		of := func(all map[string]*Resource, kind Kind) []string {
			var ids []string
			for id, e := range all {
				if e.Kind == kind {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			return ids
		}
		if x, y := of(there, Added), of(back, Removed); !slices.Equal(x, y) {
			t.Fatalf("there %v are added, back %v removed", x, y)
		}
		if x, y := of(there, Removed), of(back, Added); !slices.Equal(x, y) {
			t.Fatalf("there %v are removed, back %v added", x, y)
		}
	})
}

// needs is the most that is reserved while steps are taken in an order; steps that only lower take no room.
func needs(from int, steps []Step) (most int) {
	now := from
	for _, s := range steps {
		if s.Peak > s.From {
			most = max(most, now-s.From+s.Peak)
		}
		now += s.To - s.From
	}
	return most
}

// permutations visits every order of steps.
func permutations(steps []Step, visit func([]Step)) {
	var rest func(k int)
	rest = func(k int) {
		if k == len(steps) {
			visit(steps)
			return
		}
		for i := k; i < len(steps); i++ {
			steps[k], steps[i] = steps[i], steps[k]
			rest(k + 1)
			steps[k], steps[i] = steps[i], steps[k]
		}
	}
	rest(0)
}

func TestGuaranteeWithinTheRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "stacks")
		r := Room{From: rapid.IntRange(0, 20).Draw(t, "others"), Room: rapid.IntRange(0, 60).Draw(t, "room")}
		var steps []Step
		for i := range n {
			s := Step{Stack: fmt.Sprintf("s%d", i), From: rapid.IntRange(0, 9).Draw(t, "from"), To: rapid.IntRange(0, 9).Draw(t, "to"), Gone: rapid.Bool().Draw(t, "gone")}
			s.Peak = max(s.From, s.To) + rapid.IntRange(0, 9).Draw(t, "peak")
			r.From += s.From
			steps = append(steps, s)
		}
		least := -1
		permutations(slices.Clone(steps), func(order []Step) {
			if m := needs(r.From, order); least < 0 || m < least {
				least = m
			}
		})
		r.order(steps)
		if got := needs(r.From, r.Steps); got != least {
			t.Fatalf("the order %+v needs %d, another one only %d", r.Steps, got, least)
		}
		if r.Fits != (least <= r.Room) {
			t.Fatalf("it fits: %t; the least that is needed is %d, of %d", r.Fits, least, r.Room)
		}
	})
}

func TestGuaranteeKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn().Draw(t, "was"), drawn().Draw(t, "next")
		r := Compare(a, b, Options{})
		was, next := resources(a), resources(b)
		refused := map[string]bool{}
		for _, e := range r.Refused {
			refused[e.Stack+"."+e.Resource] = true
		}
		found := what(r)
		for _, id := range slices.Sorted(maps.Keys(was)) {
			old, r := was[id], next[id]
			if !slices.Contains([]string{"AWS::SQS::Queue", "AWS::DynamoDB::Table"}, old.Type) {
				continue
			}
			gone := r == nil && old.DeletionPolicy != "Retain"
			again := r != nil && r.Type != old.Type
			for _, name := range []string{"QueueName", "TableName"} {
				if r == nil || r.Type != old.Type || name[:5] != old.Type[len(old.Type)-5:] {
					continue
				}
				x, before := old.Properties.Get(name)
				y, after := r.Properties.Get(name)
				again = again || before != after || !equal(x, y)
			}
			if (gone || again) && !refused[id] {
				t.Fatalf("%s is lost (%+v), and nothing refuses that", id, found[id])
			}
		}
	})
}
