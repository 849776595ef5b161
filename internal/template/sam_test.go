package template

import "testing"

func TestGlobals(t *testing.T) {
	const globals = `"Globals": {"Function": {"ReservedConcurrentExecutions": 5, "Layers": ["a"], "Environment": {"Variables": {"A": "1", "B": "2"}}}}`
	for name, c := range map[string]struct{ in, want string }{
		"merged": {`{"Transform": "AWS::Serverless-2016-10-31", ` + globals + `, "Resources": {"R": {"Type": "AWS::Serverless::Function",
			"Properties": {"Layers": ["b"], "Environment": {"Variables": {"B": {"Ref": "X"}, "C": "3"}}, "Handler": "h"}}}}`,
			`{"ReservedConcurrentExecutions":5,"Layers":["a","b"],"Environment":{"Variables":{"A":"1","B":{"Ref":"X"},"C":"3"}},"Handler":"h"}`},
		"own scalar": {`{"Transform": ["AWS::Serverless-2016-10-31"], ` + globals + `, "Resources": {"R": {"Type": "AWS::Serverless::Function",
			"Properties": {"ReservedConcurrentExecutions": 7, "Layers": {"Ref": "L"}, "Environment": {"Ref": "E"}}}}}`,
			`{"ReservedConcurrentExecutions":7,"Layers":{"Ref":"L"},"Environment":{"Ref":"E"}}`},
		"no properties": {`{"Transform": "AWS::Serverless-2016-10-31", "Globals": {"Function": {"Timeout": 3}}, "Resources": {"R": {"Type": "AWS::Serverless::Function"}}}`,
			`{"Timeout":3}`},
		"another type": {`{"Transform": "AWS::Serverless-2016-10-31", ` + globals + `, "Resources": {"R": {"Type": "AWS::Lambda::Function"}}}`, `null`},
		"no transform": {`{` + globals + `, "Resources": {"R": {"Type": "AWS::Serverless::Function"}}}`, `null`},
	} {
		tpl, err := Parse(decode(t, c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, _ := tpl.Resources[0].Properties.MarshalJSON(); string(got) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, bad := range []string{`[]`, `{"Function": 5}`} {
		if _, err := Parse(decode(t, `{"Transform": "AWS::Serverless-2016-10-31", "Resources": {}, "Globals": `+bad+`}`)); err == nil {
			t.Errorf("Globals %s: no error", bad)
		}
	}
}
