package template

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func decode(t testing.TB, s string) Node {
	t.Helper()
	n, err := DecodeJSON([]byte(s))
	if err != nil {
		t.Fatalf("decode %s: %v", s, err)
	}
	return n
}

func TestDecodeFaults(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		is             error
	}{
		{"empty", "", "1:1: the text ends in the middle of a value", nil},
		{"truncated object", "{\n  \"a\": ", "2:8: the text ends in the middle of a value", nil},
		{"truncated list", `[1, 2`, "1:6: the text ends in the middle of a value", nil},
		{"no comma", "{\"a\": 1\n\"b\": 2}", "2:1: not JSON", nil},
		{"duplicate key", "{\"a\": 1,\n \"a\": 2}", `2:8: "a": key stands twice in one object`, ErrDuplicateKey},
		{"duplicate among many", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"b":2}`, `"b": key stands twice`, ErrDuplicateKey},
		{"trailing text", `{} {}`, "more text after the end", nil},
		{"too deep", strings.Repeat("[", MaxDepth+2), "nested deeper than 256 levels", ErrDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeJSON([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v is not %v", err, c.is)
			}
		})
	}
	if _, err := DecodeJSON([]byte(strings.Repeat("[", 100) + strings.Repeat("]", 100))); err != nil {
		t.Errorf("100 levels: %v", err)
	}
}

func TestParseReportsEveryFaultAtOnce(t *testing.T) {
	_, err := Parse(decode(t, `{"Resources": {"A": [], "B": {}, "C": {"Type": "T", "Properties": 5}, "D": {"Type": "T", "DependsOn": [1]}},
		"Parameters": {"P": "x"}, "Outputs": [], "Mappings": "m"}`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Resources.A is a list, want an object", "Resources.B has no Type", "Resources.C.Properties is a number",
		"Resources.D.DependsOn is neither", "Parameters.P is a string", "Outputs is a list", "Mappings is a string"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error misses %q:\n%v", want, err)
		}
	}
	for _, in := range []string{`[]`, `{}`, `{"Description": "x"}`} {
		if _, err := Parse(decode(t, in)); err == nil {
			t.Errorf("%s passes as a template", in)
		}
	}
}

func TestParseSections(t *testing.T) {
	tpl, err := Parse(decode(t, `{"Transform": ["A", {"Name": "AWS::Include"}], "Conditions": {"C": {"Fn::Equals": ["a", "b"]}},
		"Parameters": {"P": {"Type": "Number", "Default": 5}, "Q": {"Type": "AWS::SSM::Parameter::Value<String>"}},
		"Resources": {"Fn::ForEach::X": [], "B": {"Type": "T", "DependsOn": "A", "Condition": "C"}, "A": {"Type": "T"}},
		"Outputs": {"O": {"Value": {"Ref": "A"}, "Export": {"Name": "n"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if tpl.Resources[0].ID != "A" || tpl.Resources[1].DependsOn[0] != "A" || tpl.Resources[1].Condition != "C" {
		t.Errorf("resources %+v", tpl.Resources)
	}
	if p, ok := tpl.Parameter("P"); !ok || p.Default != "5" || p.IsSSM() {
		t.Errorf("parameter %+v", p)
	}
	if q, ok := tpl.Parameter("Q"); !ok || q.HasDefault || !q.IsSSM() {
		t.Errorf("parameter %+v", q)
	}
	if !slices.Equal(tpl.Transforms, []string{"A", "AWS::Include"}) || !slices.Equal(tpl.Loops, []string{"Fn::ForEach::X"}) {
		t.Errorf("transforms %v, loops %v", tpl.Transforms, tpl.Loops)
	}
	if !tpl.Outputs[0].HasExport {
		t.Error("no export")
	}
}

func TestParseSub(t *testing.T) {
	for in, want := range map[string][]SubPart{
		"":                  nil,
		"plain":             {{Literal: "plain"}},
		"${A}":              {{Var: "A"}},
		"a${ A.B }c":        {{Literal: "a"}, {Var: "A.B"}, {Literal: "c"}},
		"${!A}${B}":         {{Literal: "${A}"}, {Var: "B"}},
		"x${":               {{Literal: "x${"}},
		"${open":            {{Literal: "${open"}},
		"${}":               {{Literal: "${}"}},
		"$${A}":             {{Literal: "$"}, {Var: "A"}},
		"${AWS::Region}-${": {{Var: "AWS::Region"}, {Literal: "-${"}},
	} {
		if diff := cmp.Diff(want, ParseSub(in)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func TestEval(t *testing.T) {
	tpl, err := Parse(decode(t, `{"Resources": {}, "Parameters": {
		"Name": {"Type": "String", "Default": "orders"}, "List": {"Type": "CommaDelimitedList", "Default": "a,b"},
		"Open": {"Type": "String"}, "Stored": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/x"}},
		"Mappings": {"M": {"eu-west-1": {"table": "mapped"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	sc := Scope{Template: &tpl, Pseudo: map[string]string{"AWS::Region": "eu-west-1", "AWS::AccountId": "111111111111"}}
	for in, want := range map[string]string{
		`"x"`:                        "x",
		`12`:                         "12",
		`true`:                       "true",
		`{"Ref": "AWS::Region"}`:     "eu-west-1",
		`{"Ref": "AWS::NoValue"}`:    "",
		`{"Ref": "Name"}`:            "orders",
		`{"Ref": "Open"}`:            "<Open>",
		`{"Ref": "Stored"}`:          "<Stored>",
		`{"Fn::GetAtt": ["A", "B"]}`: "<A.B>",
		`{"Fn::Sub": "${Name}-${AWS::Region}-${!x}-${R.Arn}"}`:                                            "orders-eu-west-1-${x}-<R.Arn>",
		`{"Fn::Sub": ["${a}${a}", {"a": {"Ref": "Name"}}]}`:                                               "ordersorders",
		`{"Fn::Join": [":", ["arn", {"Ref": "AWS::AccountId"}, {"Ref": "Res"}]]}`:                         "arn:111111111111:<Res>",
		`{"Fn::Join": ["-", {"Ref": "List"}]}`:                                                            "a-b",
		`{"Fn::Join": ["-", {"Fn::Split": ["/", "a/b"]}]}`:                                                "a-b",
		`{"Fn::Select": [1, {"Fn::Split": ["/", "a/b"]}]}`:                                                "b",
		`{"Fn::Select": ["1", ["x", {"Ref": "Name"}]]}`:                                                   "orders",
		`{"Fn::Select": [9, ["x"]]}`:                                                                      "<Fn::Select>",
		`{"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "table"]}`:                                       "mapped",
		`{"Fn::FindInMap": ["M", {"Ref": "Open"}, "table"]}`:                                              "<Fn::FindInMap>",
		`{"Fn::If": ["C", "a", {"Ref": "Name"}]}`:                                                         "a|orders",
		`{"Fn::Join": ["", ["x-", {"Fn::If": ["C", "a", "b"]}]]}`:                                         "x-a|x-b",
		`{"Fn::Base64": {"Fn::Sub": "run ${Name}"}}`:                                                      "run orders",
		`{"Fn::GetAZs": ""}`:                                                                              "<Fn::GetAZs>",
		`{"a": 1}`:                                                                                        "<an expression>",
		`{"Fn::Join": ["", [{"Ref": "AWS::Region"}, {"Fn::Select": [0, {"Fn::GetAZs": ""}]}, "a", "b"]]}`: "eu-west-1<Fn::Select>ab",
	} {
		var got []string
		for _, text := range sc.Eval(decode(t, in)) {
			s := ""
			for _, p := range text {
				s += p.Literal
				if p.Hole != "" {
					s += "<" + p.Hole + ">"
				}
			}
			got = append(got, s)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s = %v, want %s", in, got, want)
		}
	}
	sc.Values = map[string]string{"Open": "given", "Name": "other"}
	if got, _ := sc.Eval(decode(t, `{"Fn::Sub": "${Open}/${Name}"}`))[0].Literal(); got != "given/other" {
		t.Errorf("given values: %q", got)
	}
}

func TestUses(t *testing.T) {
	n := decode(t, `{
		"Plain": "lit",
		"Ref": {"Ref": "A"},
		"List": [{"Fn::GetAtt": ["B", "Arn"]}, {"Fn::GetAtt": "C.Outputs.X"}],
		"Sub": {"Fn::Sub": ["${D}-${E.Arn}-${own}-${!no}", {"own": {"Ref": "F"}}]},
		"If": {"Fn::If": ["Cond", {"Ref": "G"}, {"Fn::ImportValue": {"Fn::Sub": "${H}-x"}}]},
		"Statement": {"Condition": {"StringEquals": {"k": {"Ref": "I"}}}},
		"Bad": [{"Ref": 5}, {"Fn::GetAtt": []}, {"Fn::Sub": 1}, {"Fn::If": []}, {"Fn::Transform": {"Name": "x"}}, {"Fn::Nope": {"Ref": "J"}}],
		"Out": {"Fn::GetStackOutput": {"StackName": "s", "OutputName": "o"}}
	}`)
	var got []string
	names := map[UseKind]string{UseRef: "ref", UseGetAtt: "att", UseImport: "import", UseStackOutput: "output", UseCondition: "cond", UseMacro: "macro"}
	Uses(n, func(u Use) {
		if u.Kind == UseText {
			return
		}
		got = append(got, strings.TrimSuffix(names[u.Kind]+" "+u.Name+"."+u.Attr, ".")+" @"+strings.Join(u.Path, "."))
	})
	want := []string{"ref A @Ref", "att B.Arn @List.0", "att C.Outputs.X @List.1", "ref D @Sub", "att E.Arn @Sub", "ref F @Sub",
		"cond Cond @If", "ref G @If", "import  @If", "ref H @If", "ref I @Statement.Condition.StringEquals.k",
		"macro Ref @Bad.0", "macro Fn::GetAtt @Bad.1", "macro Fn::Sub @Bad.2", "macro Fn::If @Bad.3", "macro Fn::Transform @Bad.4",
		"macro Fn::Nope @Bad.5", "ref J @Bad.5", "output  @Out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"Resources": {"A": {"Type": "T", "Properties": {"X": {"Fn::Sub": ["${a}", {"a": {"Ref": "A"}}]}}}}}`,
		`{"a": 1, "a": 2}`, `[[[[`, `{"Fn::Join": ["", [{"Fn::If": ["c", "a", "b"]}]]}`, "\xef\xbb\xbf{}", `{"x": "\ud800"}`, `1e999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := DecodeJSON(data)
		var syntax *SyntaxError
		if err != nil {
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1 {
				t.Fatalf("error without a position: %v", err)
			}
			return
		}
		if !json.Valid(data) && !strings.HasPrefix(string(data), "\xef\xbb\xbf") {
			t.Fatalf("accepts what is not JSON: %q", data)
		}
		out, err := n.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeJSON(out)
		if err != nil {
			t.Fatalf("own output %s: %v", out, err)
		}
		if diff := cmp.Diff(n, again, cmp.AllowUnexported(Node{})); diff != "" {
			t.Fatal(diff)
		}
		tpl, err := Parse(n)
		if err != nil {
			tpl = Template{}
		}
		checkBounds(t, Scope{Template: &tpl}, n)
	})
}
