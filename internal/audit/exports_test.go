package audit_test

import (
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// mailing is a core stack with exports and a stack that imports some.
func mailing(exports map[string]any, imports ...string) stackSet {
	s := stackSet{}
	s.put("core", "Queue", "AWS::SQS::Queue", object{})
	s.put("core", "Topic", "AWS::SNS::Topic", object{})
	for name, v := range exports {
		s.export("core", name, v)
	}
	s.put("mailer", "Own", "AWS::SQS::Queue", object{})
	for _, name := range imports {
		s.put("mailer", "Use"+name, "AWS::Lambda::Function", object{"ReservedConcurrentExecutions": 1, "Environment": object{"Variables": object{"X": imported(name)}}})
	}
	return s
}

// TestExportInUse holds the real case, a consumer removed while its export is in use, in each of its forms: exactly one
// finding, at that level, that says who imports and what to do.
func TestExportInUse(t *testing.T) {
	queue, topic := ref("Queue"), ref("Topic")
	both := map[string]any{"queue": queue, "topic": topic}
	without := func(s stackSet, stack string) stackSet { delete(s, stack); return s }
	for name, c := range map[string]struct {
		was, next stackSet
		after     []string // that the new assembly deploys before mailer
		level     string   // "" for no finding
		says, fix string
	}{
		"nothing changes": {was: mailing(both, "queue"), next: mailing(both, "queue")},
		"nobody imports":  {was: mailing(both), next: mailing(nil)},
		"the consumer is removed": {mailing(both, "queue"), without(mailing(nil), "mailer"), nil, "error",
			`stack "core" drops export "queue", which 1 deployed stack imports (mailer): CloudFormation refuses that`, "remove mailer first (cdk destroy"},
		"the consumer stops importing": {mailing(both, "queue"), mailing(nil), nil, "warning",
			`stack "core" drops export "queue"`, "deploy mailer, and only then deploy core, each by itself (cdk deploy --exclusively)"},
		"it stops, and is deployed last": {mailing(both, "queue"), mailing(map[string]any{"topic": topic}), []string{"core"}, "error",
			"drops", "keep the export for one release"},
		"it takes another one, which is there": {mailing(both, "queue"), mailing(map[string]any{"topic": topic}, "topic"), nil, "warning", "drops", "deploy mailer"},
		"it takes another one, which is new": {mailing(map[string]any{"queue": queue}, "queue"), mailing(map[string]any{"topic": topic}, "topic"), nil, "error",
			"drops", "keep the export for one release"},
		"it imports it still": {mailing(both, "queue"), mailing(nil, "queue"), nil, "error", "drops", "keep the export for one release"},
		"the value changes": {mailing(map[string]any{"queue": "a"}, "queue"), mailing(map[string]any{"queue": "b"}, "queue"), nil, "error",
			`changes export "queue"`, "under another name"},
		"the value changes, it stops": {mailing(map[string]any{"queue": "a"}, "queue"), mailing(map[string]any{"queue": "b"}), nil, "warning", "changes", "deploy mailer"},
		"the value is written otherwise": {was: mailing(map[string]any{"queue": "a"}, "queue"),
			next: mailing(map[string]any{"queue": object{"Fn::Join": []any{"", []any{"a", ""}}}}, "queue")},
		"the exporting stack goes": {mailing(both, "queue"), without(mailing(nil), "core"), nil, "warning",
			`stack "core" is not in the new assembly, and with it goes export "queue"`, "deploy mailer, and only then remove core"},
		"both go": {mailing(both, "queue"), stackSet{"other": mailing(nil)["mailer"]}, nil, "warning", "goes export", "remove mailer, and only then remove core"},
	} {
		t.Run(name, func(t *testing.T) {
			next := c.next.load(t)
			for i := range next.Stacks {
				for _, first := range c.after {
					if j := slices.IndexFunc(next.Stacks, func(s audit.Stack) bool { return s.Name == first }); next.Stacks[i].Name == "mailer" && j >= 0 {
						next.Stacks[i].After = append(next.Stacks[i].After, audit.StackID{Name: first, File: next.Stacks[j].File})
					}
				}
			}
			r := audit.Run(next, audit.Options{Before: c.was.load(t).Stacks})
			var got []audit.Finding
			for _, f := range r.Findings {
				if f.Rule == "SC006" {
					got = append(got, f)
				}
			}
			if c.level == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%d findings: %+v", len(got), r.Findings)
			}
			f := got[0]
			if f.Level.String() != c.level || !strings.Contains(f.Message, c.says) || !strings.Contains(f.Fix, c.fix) || f.Reason == "" {
				t.Errorf("%s %s\nreason: %s\nfix: %s", f.Level, f.Message, f.Reason, f.Fix)
			}
			if len(f.Paths) != 1 || f.Paths[0].Steps[0].LogicalID != "Usequeue" || f.Paths[0].Steps[1].Name != "queue" || f.Resource.Stack != "core" {
				t.Errorf("path %+v of %+v", f.Paths, f.Resource)
			}
		})
	}
}

// TestExportOrder holds that an order leads through several stacks, that a circle of them has none, and that what is said
// of it names each step.
func TestExportOrder(t *testing.T) {
	build := func(lines ...string) stackSet { // "a exports x", "a imports x"
		s := stackSet{}
		for _, line := range lines {
			w := strings.Fields(line)
			s.put(w[0], "Own", "AWS::SQS::Queue", object{})
			switch {
			case len(w) < 3:
			case w[1] == "exports":
				s.export(w[0], w[2], ref("Own"))
			default:
				s.put(w[0], "Use"+w[2], "AWS::SQS::Queue", object{"QueueName": imported(w[2])})
			}
		}
		return s
	}
	// a gives x to b, which gives y to c; all stop
	chain, _ := audit.Withdrawals(build("a exports x", "b imports x", "b exports y", "c imports y").load(t).Stacks, build("a", "b", "c").load(t).Stacks, nil)
	var orders []string
	for i := range chain {
		orders = append(orders, chain[i].Order())
	}
	if want := []string{"deploy b, and only then deploy a", "deploy c, and only then deploy b"}; !slices.Equal(orders, want) {
		t.Errorf("%q, want %q", orders, want)
	}
	// b stops x of a, and needs z of c, which stops w of a, which needs v of b that b exports only then
	circle, _ := audit.Withdrawals(build("a exports x", "b imports x", "c").load(t).Stacks,
		build("a imports v", "b exports v", "a exports z", "c imports z", "c exports w", "b imports w").load(t).Stacks, nil)
	if len(circle) != 1 || circle[0].Fits || circle[0].Order() != "" {
		t.Fatalf("%+v", circle)
	}
	for _, step := range []string{"stack c imports z, which stack a exports only from then on", "stack b imports w, which stack c exports only from then on"} {
		if !strings.Contains(circle[0].Why(), step) {
			t.Errorf("%q does not say %q", circle[0].Why(), step)
		}
	}
	// two that stop one export, of which one has to go first
	two, _ := audit.Withdrawals(build("a exports x", "b imports x", "c imports x").load(t).Stacks, build("a", "c exports n", "b imports n").load(t).Stacks, nil)
	if len(two) != 1 || two[0].Order() != "deploy c, deploy b, and only then deploy a" {
		t.Errorf("%+v", two)
	}
	// an export that another stack takes over
	moved, _ := audit.Withdrawals(build("a exports x", "b imports x").load(t).Stacks, build("a", "b imports x", "c exports x").load(t).Stacks, nil)
	if len(moved) != 1 || moved[0].Change != "moved" || moved[0].Fits || !strings.Contains(moved[0].Why(), "b imports it still") {
		t.Errorf("%+v", moved)
	}
}

// TestVagueImport holds that an import by a name that only a deployment knows is told once an export goes, and not before.
func TestVagueImport(t *testing.T) {
	was := mailing(map[string]any{"queue": ref("Queue")}, "queue")
	was.put("mailer", "Vague", "AWS::SQS::Queue", object{"QueueName": object{"Fn::ImportValue": object{"Fn::Sub": "${AWS::StackId}-x"}}})
	for _, keeps := range []bool{true, false} {
		var exports map[string]any
		if keeps {
			exports = map[string]any{"queue": ref("Queue")}
		}
		_, vague := audit.Withdrawals(was.load(t).Stacks, mailing(exports).load(t).Stacks, nil)
		if want := !keeps; slices.Equal(vague, []string{"mailer"}) != want {
			t.Errorf("kept %v: %v", keeps, vague)
		}
	}
}
