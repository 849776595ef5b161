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
				typ := rapid.SampledFrom([]string{"AWS::SQS::Queue", "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::EC2::VPC", "AWS::Lambda::Function", "AWS::Lambda::Version", "Custom::Thing"}).Draw(t, "type")
				var properties []string
				for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"QueueName", "TableName", "CidrBlock", "Tags", "Unheard", "KmsMasterKeyId", "FunctionName"}), 0, 3, rapid.ID).Draw(t, "properties") {
					v := rapid.SampledFrom([]string{`"x"`, `"y"`, `7`, `["x"]`, `["y"]`, `["x", "y"]`, `{"Ref": "A"}`, `{"Fn::GetAtt": ["B", "Arn"]}`, `{"k": "x"}`, `{"k": "y", "l": true}`}).Draw(t, "value")
					properties = append(properties, fmt.Sprintf("%q: %s", p, v))
				}
				keep := rapid.SampledFrom([]string{"", `, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"`, `, "DeletionPolicy": "Delete"`}).Draw(t, "policy")
				resources = append(resources, fmt.Sprintf(`%q: {"Type": %q, "Properties": {%s}%s}`, id, typ, strings.Join(properties, ","), keep))
			}
			s := stackOf(t, name, strings.Join(resources, ","))
			if _, shard, ok := strings.Cut(name, "-shard-"); ok {
				s.Tags = map[string]string{"cellwall:service": "orders", "cellwall:cell": "eu-1", "cellwall:shard": shard}
			}
			in.Stacks = append(in.Stacks, s)
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

// touched is the same, with what goes under another logical id than what comes for it.
func touched(r Report) map[string]*Resource {
	all := what(r)
	for id, e := range maps.Clone(all) {
		if e.Was != "" {
			all[strings.TrimSuffix(id, e.ID)+e.Was] = e
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
		found := touched(Compare(a, b, Options{}))
		was, next := resources(a), resources(b)
		for id, r := range next {
			old, e := was[id], found[id]
			switch {
			case old == nil && (e == nil || e.Kind != Added && (e.Kind != Replaced || e.Was == "")):
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
			if e := found[id]; next[id] == nil && (e == nil || e.Kind != Removed && (e.Kind != Replaced || e.Was == "")) {
				t.Fatalf("%s goes, and the report has %+v", id, found[id])
			}
		}
		for id, e := range found {
			if e.Was != "" && e.Type == typeVersion && e.Kind == Replaced {
				continue // one comes for another
			}
			if was[id] == nil && next[id] == nil || (e.Kind == Added) != (was[id] == nil) || (e.Kind == Removed) != (next[id] == nil) {
				t.Fatalf("the report has %s as %+v: was %v, next %v", id, e, was[id] != nil, next[id] != nil)
			}
		}
	})
}

func TestGuaranteeMirror(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn().Draw(t, "was"), drawn().Draw(t, "next")
		there, back := touched(Compare(a, b, Options{})), touched(Compare(b, a, Options{}))
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
		if x, y := slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(back)); !slices.Equal(x, y) {
			t.Fatalf("there %v change, back %v", x, y)
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
			if r == nil || r.Type != old.Type || old.Type != "AWS::SQS::Queue" {
				continue
			}
			x, _ := old.Properties.Get("KmsMasterKeyId")
			y, _ := r.Properties.Get("KmsMasterKeyId")
			if x.Kind() == template.String && !equal(x, y) && !refused[id] {
				t.Fatalf("%s leaves its key (%+v), and nothing refuses that", id, found[id])
			}
		}
	})
}

// blocks are the lines of a report in text below each heading that names stacks, by heading, and those of what is
// refused.
func blocks(text string) (stacks map[string][]string, refused []string) {
	stacks = map[string][]string{}
	heading := ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "  stack ") && heading != "refused", strings.HasPrefix(line, "  the stacks of "):
			heading = line
		case line == "refused":
			heading = line
		case heading == "refused" && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "    "):
			refused = append(refused, line)
		default:
			stacks[heading] = append(stacks[heading], line)
		}
	}
	return stacks, refused
}

func TestGuaranteeTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Compare(drawn().Draw(t, "was"), drawn().Draw(t, "next"), Options{})
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		below, refused := blocks(b.String())
		for i := range r.Stacks {
			s := &r.Stacks[i]
			var lines []string
			for heading, all := range below {
				if strings.Contains(heading, " "+s.Name+" ") || s.Shard != "" && strings.HasPrefix(heading, "  the stacks of ") && strings.Contains(strings.SplitAfter(heading, "), ")[1], s.Shard) {
					lines = append(lines, all...)
				}
			}
			for j := range s.Resources {
				e := &s.Resources[j]
				if !e.Stateful || !slices.Contains([]Kind{Removed, Replaced, MayReplace}, e.Kind) {
					continue
				}
				told := slices.ContainsFunc(lines, func(line string) bool {
					return strings.HasPrefix(line, "    "+marks[e.Kind]+" "+label(e)) || e.Kept && strings.HasPrefix(line, "    = ") && (strings.Contains(line, label(e)) || e.Name != "" && strings.Contains(line, e.Name))
				})
				if s.Kind == Removed && !e.Kept { // counted there, named here
					told = slices.ContainsFunc(refused, func(line string) bool {
						return strings.HasSuffix(line, "removes "+label(e)) && strings.Contains(line, s.Name)
					})
				}
				if !told {
					t.Fatalf("%s of %s is %s, and the text does not say so:\n%s", e.ID, s.Name, e.Kind, b.String())
				}
			}
		}
	})
}
