package audit_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// linkedApp is a small app: by stack what it exports, what it imports, and after which stacks it is deployed. An export x1
// is always that of stack x.
type linkedApp map[string]struct{ exports, imports, after []string }

// stacks is the app as an audit reads it.
func (a linkedApp) stacks(t *rapid.T) []audit.Stack {
	var out []audit.Stack
	for _, name := range []string{"a", "b", "c", "d"} {
		s, ok := a[name]
		if !ok {
			continue
		}
		resources, outputs := object{"Own": object{"Type": "AWS::SQS::Queue"}}, object{}
		for _, x := range s.imports {
			resources["Use"+x] = object{"Type": "AWS::SQS::Queue", "Properties": object{"QueueName": imported(x)}}
		}
		for _, x := range s.exports {
			outputs["Out"+x] = object{"Value": ref("Own"), "Export": object{"Name": x}}
		}
		st := audit.Stack{Name: name, File: name + ".json", Account: "111111111111", Region: "eu-west-1", Template: drawnTemplate(t, object{"Resources": resources, "Outputs": outputs})}
		for _, x := range s.after {
			st.After = append(st.After, audit.StackID{Name: x, File: x + ".json"})
		}
		out = append(out, st)
	}
	return out
}

func drawnTemplate(t *rapid.T, body object) template.Template {
	data, err := json.Marshal(body)
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

// deployable says whether CloudFormation takes some order of deployments of next over was, by trying all: an import needs
// its export, and an export that somebody imports does not go. Stacks that next lacks are removed where that is asked.
func deployable(was, next linkedApp, remove []string) bool {
	var try func(now linkedApp, left []string) bool
	used := func(now linkedApp, by, export string) bool {
		for name, s := range now {
			if name != by && slices.Contains(s.imports, export) {
				return true
			}
		}
		return false
	}
	try = func(now linkedApp, left []string) bool {
		if len(left) == 0 {
			return true
		}
		for i, name := range left {
			then, stays := next[name]
			ok := true
			for _, x := range then.after {
				ok = ok && !slices.Contains(left, x)
			}
			for _, x := range then.imports {
				ok = ok && slices.Contains(now[x[:1]].exports, x)
			}
			for _, x := range now[name].exports {
				ok = ok && (slices.Contains(then.exports, x) || !used(now, name, x))
			}
			if !ok {
				continue
			}
			after := linkedApp{}
			for k, v := range now {
				after[k] = v
			}
			delete(after, name)
			if stays {
				after[name] = then
			}
			if try(after, slices.Delete(slices.Clone(left), i, i+1)) {
				return true
			}
		}
		return false
	}
	left := slices.Clone(remove)
	for name := range next {
		left = append(left, name)
	}
	slices.Sort(left)
	return try(was, left)
}

// drawnApp is an app that can be deployed where nothing is.
func drawnApp(t *rapid.T, label string) linkedApp {
	app := linkedApp{}
	names := []string{"a", "b", "c", "d"}
	order := rapid.Permutation(names).Draw(t, label+" order")
	var there []string
	for i, name := range order {
		if i > 1 && rapid.Bool().Draw(t, label+" lacks "+name) {
			continue
		}
		s := app[name]
		for _, x := range []string{name + "1", name + "2"} {
			if rapid.Bool().Draw(t, label+" exports "+x) {
				s.exports = append(s.exports, x)
			}
		}
		for _, other := range order[:i] {
			for _, x := range app[other].exports {
				if rapid.IntRange(0, 2).Draw(t, label+" "+name+" imports "+x) == 0 {
					s.imports = append(s.imports, x)
				}
			}
			if slices.Contains(there, other) && rapid.IntRange(0, 5).Draw(t, label+" "+name+" after "+other) == 0 {
				s.after = append(s.after, other)
			}
		}
		app[name] = s
		there = append(there, name)
	}
	return app
}

// TestAnOrderIsFoundWhenThereIsOne holds Withdrawals to CloudFormation's own rules: all fit exactly when some order of
// deployments is taken, whatever else the two apps have in common, and the order of stacks does not matter. Where a stack
// that next lacks imports what a stack that stays takes away, no deployment helps.
func TestAnOrderIsFoundWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, next := drawnApp(t, "was"), drawnApp(t, "next")
		var remove []string
		stuck := false
		for name, s := range was {
			if _, stays := next[name]; stays {
				continue
			}
			remove = append(remove, name)
			for _, x := range s.imports {
				then, stays := next[x[:1]]
				stuck = stuck || stays && !slices.Contains(then.exports, x)
			}
		}
		want := !stuck && deployable(was, next, remove)
		before, then := was.stacks(t), next.stacks(t)
		got, _ := audit.Withdrawals(before, then, nil)
		fits := true
		for i := range got {
			fits = fits && got[i].Fits
			if got[i].Fits == (got[i].Order() == "") || got[i].Fits != (got[i].Why() == "") || got[i].Next() == "" {
				t.Fatalf("%+v: order %q, why %q, next %q", got[i], got[i].Order(), got[i].Why(), got[i].Next())
			}
		}
		if fits != want {
			t.Fatalf("fits %v, but deployable %v\nwas  %+v\nnext %+v\n%+v", fits, want, was, next, got)
		}
		slices.Reverse(before)
		slices.Reverse(then)
		if again, _ := audit.Withdrawals(before, then, nil); !reflect.DeepEqual(got, again) {
			t.Fatalf("in another order of stacks:\n%+v\n%+v", got, again)
		}
	})
}
