package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/template"
)

// randomInput draws stacks of resources that refer to each other in many ways, cycles, double names and
// dead ends included.
func randomInput(t *rapid.T) Input {
	stacks := rapid.IntRange(1, 6).Draw(t, "stacks")
	perStack := rapid.IntRange(1, 8).Draw(t, "resources")
	types := []string{"AWS::DynamoDB::Table", "AWS::SQS::Queue", typeFunction, typeLoadBalancer, typeListener, typeListenerRule,
		typeTargetGroup, "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::CloudWatch::Alarm", typeParameter, "AWS::EC2::Subnet", "AWS::Odd::Type"}
	keys := []string{"X", "LoadBalancerArn", "ListenerArn", "TargetGroupArn", "Roles", "FunctionName", "Environment", "Tags", "Name"}
	in := Input{}
	for i := range stacks {
		r := object{}
		for j := range perStack {
			typ := rapid.SampledFrom(types).Draw(t, "type")
			props := object{}
			if p := traitsOf(typ).name; p != "" && rapid.Bool().Draw(t, "named") {
				props[p] = rapid.SampledFrom([]string{"name-a", "name-b", "plain", fmt.Sprintf("n-%d-%d", i, j)}).Draw(t, "name")
			}
			for range rapid.IntRange(0, 4).Draw(t, "refs") {
				id := fmt.Sprintf("R%d", rapid.IntRange(0, perStack).Draw(t, "to")) // one beyond the last is not there
				var v any
				switch rapid.IntRange(0, 7).Draw(t, "how") {
				case 0:
					v = object{"Ref": id}
				case 1:
					v = object{"Fn::GetAtt": []any{id, "Arn"}}
				case 2:
					v = object{"Fn::Sub": "x-${" + id + "}"}
				case 3:
					v = object{"Fn::ImportValue": "export-" + id}
				case 4:
					v = "name-a"
				case 5:
					v = "arn:aws:dynamodb:eu-west-1:111111111111:table/name-b"
				case 6:
					v = object{"Statement": []any{object{"Resource": object{"Ref": id}}}}
				case 7:
					v = "{{resolve:ssm:name-a}}"
				}
				props[rapid.SampledFrom(keys).Draw(t, "key")] = v
			}
			res := object{"Type": typ, "Properties": props}
			if rapid.IntRange(0, 4).Draw(t, "order") == 0 {
				res["DependsOn"] = fmt.Sprintf("R%d", rapid.IntRange(0, perStack).Draw(t, "after"))
			}
			r[fmt.Sprintf("R%d", j)] = res
		}
		tpl := object{"Resources": r, "Outputs": object{"O": object{"Value": object{"Ref": "R0"}, "Export": object{"Name": fmt.Sprintf("export-R%d", i)}}}}
		s := Stack{Name: fmt.Sprintf("stack-%d", i), File: fmt.Sprintf("f%d.json", i), Account: "111111111111", Region: "eu-west-1", Template: parse(t, tpl)}
		if shard := rapid.IntRange(0, 3).Draw(t, "shard"); shard > 0 {
			s.Tags = map[string]string{"cellwall:cell": "c", "cellwall:shard": fmt.Sprintf("s%d", shard)}
		}
		in.Stacks = append(in.Stacks, s)
	}
	return in
}

type object = map[string]any

func parse(t interface{ Fatal(...any) }, v any) template.Template {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	n, err := template.DecodeJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := template.Parse(n)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

// reach is who depends on each node, by one plain search for each shard.
func reach(g *graph, most bond) []map[int32]int {
	out := make([]map[int32]int, len(g.nodes)) // node to shard to distance
	for i := range out {
		out[i] = map[int32]int{}
	}
	for shard := range int32(len(g.shards)) {
		var queue []int32
		for i := range g.nodes {
			if g.nodes[i].shard == shard {
				out[i][shard] = 0
				queue = append(queue, int32(i))
			}
		}
		for len(queue) > 0 {
			v := queue[0]
			queue = queue[1:]
			for _, e := range g.out[v] {
				if _, seen := out[e.to][shard]; !seen && e.bond <= most {
					out[e.to][shard] = out[v][shard] + 1
					queue = append(queue, e.to)
				}
			}
		}
	}
	return out
}

func TestComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := build(randomInput(t), Options{})
		by := [][]map[int32]int{reach(g, strong), reach(g, order), reach(g, observed)}
		want := map[int32][]int32{}
		for i := range g.nodes {
			if k := g.nodes[i].kind; k != resourceNode && k != externalNode {
				continue
			}
			for _, reached := range by {
				if len(reached[i]) > 1 {
					want[int32(i)] = slices.Sorted(maps.Keys(reached[i]))
					break
				}
			}
		}
		found := g.shareFindings()
		for _, f := range found {
			if !slices.Equal(f.shards, want[f.node]) {
				t.Fatalf("%s: shards %v, want %v", g.describe(f.node), f.shards, want[f.node])
			}
			delete(want, f.node)
		}
		for i, shards := range want {
			t.Fatalf("%s, shared by %v, is not reported", g.describe(i), shards)
		}
	})
}

func TestWitnessed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := build(randomInput(t), Options{})
		for most := strong; most <= observed; most++ {
			want := reach(g, most)
			s := g.searcher()
			for shard := range int32(len(g.shards)) {
				s.search(shard, most)
				for i := range int32(len(g.nodes)) {
					hops := s.path(i)
					dist, reached := want[i][shard]
					if !reached {
						if len(hops) != 0 {
							t.Fatalf("a path to what shard %d does not reach", shard)
						}
						continue
					}
					if len(hops) != dist+1 {
						t.Fatalf("a path of %d steps, the shortest has %d", len(hops)-1, dist)
					}
					if g.nodes[hops[0].node].shard != shard || hops[len(hops)-1].node != i {
						t.Fatal("a path with wrong ends")
					}
					for k := 1; k < len(hops); k++ {
						if hops[k].edge.to != hops[k].node || hops[k].edge.bond > most || !slices.Contains(g.out[hops[k-1].node], *hops[k].edge) {
							t.Fatal("a step that is no edge")
						}
					}
				}
			}
		}
	})
}

func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := randomInput(t)
		render := func(in Input) []byte {
			r := Run(in, Options{})
			var b bytes.Buffer
			if err := r.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			if err := json.NewEncoder(&b).Encode(r); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
		want := render(in)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(in.Stacks), func(i, j int) { in.Stacks[i], in.Stacks[j] = in.Stacks[j], in.Stacks[i] })
		if got := render(in); !bytes.Equal(got, want) {
			t.Fatalf("another order of stacks, another report:\n%s\n%s", want, got)
		}
	})
}

func TestUnjudged(t *testing.T) {
	cases := map[string]struct {
		properties any
		want       string
	}{
		"missing resource":  {object{"X": object{"Ref": "Gone"}}, `Ref at X names "Gone"`},
		"missing attribute": {object{"X": object{"Fn::GetAtt": []any{"Gone", "Arn"}}}, `Fn::GetAtt at X names "Gone"`},
		"missing in Sub":    {object{"X": object{"Fn::Sub": "${Gone}"}}, `Ref at X names "Gone"`},
		"missing condition": {object{"X": object{"Fn::If": []any{"Gone", 1, 2}}}, `Condition at Condition names "Gone"`},
		"open parameter":    {object{"X": object{"Ref": "Open"}}, "the parameter has no default"},
		"open import":       {object{"X": object{"Fn::ImportValue": object{"Ref": "Open"}}}, "Fn::ImportValue at X"},
		"open stack output": {object{"X": object{"Fn::GetStackOutput": object{"StackName": object{"Ref": "Open"}, "OutputName": "o"}}}, "Fn::GetStackOutput at X"},
		"unknown function":  {object{"X": object{"Fn::Magic": 1}}, "Fn::Magic at X is not understood"},
		"malformed":         {object{"X": object{"Fn::If": []any{1}}}, "Fn::If at X is not understood"},
		"ambiguous name":    {object{"X": "plain"}, `X has "plain", which is also the name of`},
		"pattern":           {object{"S": object{"Statement": []any{object{"Resource": "arn:aws:dynamodb:eu-west-1:111111111111:table/pla*"}}}}, "covers by the pattern"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Run(Input{Stacks: []Stack{
				{Name: "a", File: "a", Account: "111111111111", Region: "eu-west-1", Tags: map[string]string{"cellwall:cell": "c", "cellwall:shard": "1"},
					Template: parse(t, object{"Parameters": object{"Open": object{"Type": "String"}}, "Resources": object{"R": object{"Type": "AWS::Any::Thing", "Properties": c.properties}}})},
				{Name: "b", File: "b", Account: "111111111111", Region: "eu-west-1", Tags: map[string]string{"cellwall:cell": "c", "cellwall:shard": "2"},
					Template: parse(t, object{"Resources": object{"T": object{"Type": "AWS::DynamoDB::Table", "Properties": object{"TableName": "plain"}}}})},
			}}, Options{})
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Review && strings.Contains(f.Message, c.want) }) {
				t.Errorf("no review item with %q in %+v", c.want, r.Findings)
			}
			if r.AtLeast(Warning) != 0 {
				t.Errorf("more than a review: %+v", r.Findings)
			}
		})
	}
	t.Run("macro, loop, nested stack and note", func(t *testing.T) {
		r := Run(Input{Notes: []Note{{"m", "context is missing"}}, Stacks: []Stack{{Name: "a", File: "a", Template: parse(t, object{"Transform": "AWS::Serverless-2016-10-31",
			"Resources": object{"Fn::ForEach::X": []any{}, "N": object{"Type": typeNested, "DependsOn": "Gone"}}})}}}, Options{})
		text := fmt.Sprint(r.Findings)
		for _, want := range []string{"context is missing", "AWS::Serverless-2016-10-31", "the loop stands for resources", "nested stack was not found", `DependsOn names "Gone"`, "no stack or resource says which shard"} {
			if !strings.Contains(text, want) {
				t.Errorf("no review item with %q", want)
			}
		}
	})
}
