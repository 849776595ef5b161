package audit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// golden is where cdk/stamp keeps the templates of the sample fleet, which its TestGoldenTemplates holds equal to what
// is synthesised: the first cell's core, first shard and watch. That test also holds that the other shards of a cell
// are as the first but for their ids, and how the other cells differ, so that the cells here are made from these files.
const golden = "../../cdk/stamp/testdata/sample"

// sampleStack is one stack of the sample fleet. It is not changed once it is made; edit makes another.
type sampleStack struct {
	name, path, cell, shard string
	body                    object
	read                    template.Template
	nested                  *audit.NestedIn
}

// sample is the sample fleet by construct path.
type sample map[string]sampleStack

var sampleShards = []string{"s01", "s02", "s03", "s04"}

// loadSample is the whole cell eu-canary, the fleet's global stack and, of a cell eu-2, the core and two shards. Beside
// what the fleet has, each shard has the resources of the shapes that the fleet does not use: a key of its own, a
// schedule, what becomes of its failures, a rule on its listener.
func loadSample(t testing.TB) sample {
	t.Helper()
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	out := sample{}
	add := func(path, cell, shard, text string, more object) {
		var body object
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		maps.Copy(body["Resources"].(object), more)
		name := "orders-" + strings.ReplaceAll(path, "/", "-")
		out[path] = sampleStack{name: name, path: path, cell: cell, shard: shard, body: body, read: parsed(t, body)}
	}
	add("global", "", "", text("global.json"), nil)
	core, shard := text("eu-canary.core.json"), text("eu-canary.shard-s01.json")
	add("eu-canary/core", "eu-canary", "", core, nil)
	add("eu-canary/watch", "eu-canary", "", text("eu-canary.watch.json"), nil)
	for _, id := range sampleShards {
		add("eu-canary/shard-"+id, "eu-canary", id, strings.ReplaceAll(shard, "s01", id), otherShapes("eu-canary", id))
	}
	second := strings.NewReplacer("eu-canary", "eu-2", "eucanary", "eu2")
	add("eu-2/core", "eu-2", "", second.Replace(core), nil)
	for _, id := range sampleShards[:2] {
		add("eu-2/shard-"+id, "eu-2", id, strings.ReplaceAll(second.Replace(shard), "s01", id), otherShapes("eu-2", id))
	}
	return out
}

// otherShapes are the resources that shards have in shapes other than the sample's, as cdk/stamp makes them.
func otherShapes(cell, shard string) object {
	res := func(typ string, properties object) object { return object{"Type": typ, "Properties": properties} }
	return object{
		"Key": res("AWS::KMS::Key", object{"EnableKeyRotation": true, "KeyPolicy": object{"Statement": []any{object{"Action": "kms:*", "Effect": "Allow",
			"Principal": object{"AWS": "arn:aws:iam::111111111111:root"}, "Resource": "*"}}}}),
		"KeyAlias": res("AWS::KMS::Alias", object{"AliasName": "alias/cellwall/orders/" + cell + "/" + shard, "TargetKeyId": object{"Fn::GetAtt": []any{"Key", "Arn"}}}),
		"Schedule": res("AWS::Events::Rule", object{"ScheduleExpression": "rate(1 hour)", "State": "ENABLED", "Targets": []any{object{"Id": "Target0",
			"Arn": object{"Ref": "WorkerLive5169039E"}}}}),
		"Scheduled": res("AWS::Lambda::Permission", object{"Action": "lambda:InvokeFunction", "FunctionName": object{"Ref": "WorkerLive5169039E"},
			"Principal": "events.amazonaws.com", "SourceArn": object{"Fn::GetAtt": []any{"Schedule", "Arn"}}}),
		"Fails": res("AWS::Lambda::EventInvokeConfig", object{"FunctionName": object{"Ref": "Worker11F36D0F"}, "Qualifier": "live", "MaximumRetryAttempts": 0}),
		"Route": res("AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": object{"Ref": "AlbHttp7966E42E"}, "Priority": 1,
			"Actions":    []any{object{"Type": "forward", "TargetGroupArn": object{"Ref": "Targets8080ownDCF06043"}}},
			"Conditions": []any{object{"Field": "path-pattern", "Values": []any{"/*"}}}}),
	}
}

// oneStack is the cell eu-canary in a single stack, in which construct paths alone say what belongs to which shard.
// What had the logical id X in shard s02 has S02X, in the core CoreX. The order of the core's deployment is left out: in
// one stack it would, as the audit says, hold the shards back.
func (s sample) oneStack(t testing.TB) sample {
	all := object{"Resources": object{}, "Parameters": object{}}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		st := s[path]
		if st.cell != "eu-canary" || path == "eu-canary/watch" {
			continue
		}
		prefix := onePrefix(st.shard)
		for id, v := range renamed(st.body, func(id string) string { return prefix + id })["Resources"].(object) {
			r := maps.Clone(v.(object))
			r["Metadata"] = object{"aws:cdk:path": path + "/" + id}
			if st.shard == "" {
				delete(r, "DependsOn")
			}
			all["Resources"].(object)[id] = r
		}
		if p, ok := st.body["Parameters"].(object); ok {
			maps.Copy(all["Parameters"].(object), p)
		}
	}
	return sample{"everything": {name: "everything", cell: "eu-canary", body: all, read: parsed(t, all)}}
}

func onePrefix(shard string) string {
	if shard == "" {
		return "Core"
	}
	return strings.ToUpper(shard)
}

// input is what the audit reads of it.
func (s sample) input() audit.Input {
	var in audit.Input
	for _, path := range slices.Sorted(maps.Keys(s)) {
		st := s[path]
		a := audit.Stack{Name: st.name, Path: st.path, File: path + ".json", Account: "111111111111", Region: "eu-west-1", Nested: st.nested, Template: st.read,
			Tags: map[string]string{"cellwall:service": "orders"}}
		if st.cell != "" {
			a.Tags["cellwall:cell"] = st.cell
		}
		if st.shard != "" {
			a.Tags["cellwall:shard"] = st.shard
		}
		in.Stacks = append(in.Stacks, a)
	}
	return in
}

// edit changes a copy of one stack, which is made when there is none. What change is given may be changed down to the
// entries of its sections.
func (s sample) edit(t testing.TB, path string, change func(body object)) {
	t.Helper()
	st, ok := s[path]
	if !ok {
		st = sampleStack{name: "orders-" + strings.ReplaceAll(path, "/", "-"), path: path, body: object{}}
	}
	body := object{}
	for section, v := range st.body {
		body[section] = v
		if m, ok := v.(object); ok {
			body[section] = maps.Clone(m)
		}
	}
	for _, section := range []string{"Resources", "Parameters", "Outputs", "Mappings", "Conditions"} {
		if body[section] == nil {
			body[section] = object{}
		}
	}
	change(body)
	st.body, st.read = body, parsed(t, body)
	s[path] = st
}

func resourcesOf(body object) object { return body["Resources"].(object) }

func parsed(t testing.TB, body object) template.Template {
	t.Helper()
	tpl, err := template.Parse(nodeOf(t, body))
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

// nodeOf is a value as the readers decode it, without the detour over text.
func nodeOf(t testing.TB, v any) template.Node {
	switch v := v.(type) {
	case object:
		var b template.MapBuilder
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := b.Add(key, nodeOf(t, v[key])); err != nil {
				t.Fatal(err)
			}
		}
		return b.Node()
	case []any:
		items := make([]template.Node, len(v))
		for i := range v {
			items[i] = nodeOf(t, v[i])
		}
		return template.NewList(items)
	case []object:
		items := make([]template.Node, len(v))
		for i := range v {
			items[i] = nodeOf(t, v[i])
		}
		return template.NewList(items)
	case string:
		return template.NewString(v)
	case bool:
		return template.NewBool(v)
	case float64, int:
	default:
		t.Fatalf("a template has no %T", v)
	}
	return template.NewNumber(fmt.Sprint(v))
}

// replaced is a copy of a value in which f has replaced what it says it has, outermost first.
func replaced(v any, f func(any) (any, bool)) any {
	if w, ok := f(v); ok {
		return w
	}
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for key, item := range v {
			out[key] = replaced(item, f)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaced(v[i], f)
		}
		return out
	}
	return v
}

// reference is what {Ref: id} and {Fn::GetAtt: [id, attr]} name; attr is "" for Ref.
func reference(v any) (id, attr string, ok bool) {
	m, isMap := v.(object)
	if !isMap || len(m) != 1 {
		return "", "", false
	}
	if id, ok := m["Ref"].(string); ok {
		return id, "", true
	}
	if pair, ok := m["Fn::GetAtt"].([]any); ok && len(pair) == 2 {
		return pair[0].(string), pair[1].(string), true
	}
	return "", "", false
}

// renamed is a template with other logical ids for its resources.
func renamed(body object, name func(id string) string) object {
	old := resourcesOf(body)
	out := maps.Clone(body)
	resources := object{}
	for id, r := range old {
		c := replaced(r, func(v any) (any, bool) {
			to, attr, ok := reference(v)
			if _, own := old[to]; !ok || !own {
				return nil, false
			}
			return referTo(name(to), attr), true
		}).(object)
		if after, ok := c["DependsOn"].([]any); ok {
			for i := range after {
				after[i] = name(after[i].(string))
			}
		}
		resources[name(id)] = c
	}
	out["Resources"] = resources
	return out
}

func referTo(id, attr string) any {
	if attr == "" {
		return object{"Ref": id}
	}
	return object{"Fn::GetAtt": []any{id, attr}}
}
