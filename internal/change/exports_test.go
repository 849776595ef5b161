package change

import (
	"bytes"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// exporting is an assembly of stacks by name, each a whole template.
func exporting(t *testing.T, templates map[string]string) audit.Input {
	t.Helper()
	var in audit.Input
	for name, text := range templates {
		in.Stacks = append(in.Stacks, audit.Stack{Name: name, Account: "111111111111", Region: "eu-west-1", File: name + ".json", Template: parse(t, text)})
	}
	return in
}

// TestExportsInUse: a consumer that stops has an order, one that is not deployed any more and one that imports still are
// refused, and so is an export of what is replaced.
func TestExportsInUse(t *testing.T) {
	const (
		core     = `{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}}, "Outputs": {"O": {"Value": {"Ref": "V"}, "Export": {"Name": "vpc"}}}}`
		replaced = `{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.1.0.0/16"}}}, "Outputs": {"O": {"Value": {"Ref": "V"}, "Export": {"Name": "vpc"}}}}`
		bare     = `{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}}}`
		uses     = `{"Resources": {"G": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"VpcId": {"Fn::ImportValue": "vpc"}}}}}`
		stops    = `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`
	)
	was := map[string]string{"core": core, "user": uses}
	for name, c := range map[string]struct {
		next    map[string]string
		refused string // what the refusal says, "" for none
		text    string
	}{
		"the same":         {was, "", "no stack changes"},
		"it stops":         {map[string]string{"core": bare, "user": stops}, "", "deploy user, and only then deploy core (drops vpc)"},
		"it is gone":       {map[string]string{"core": bare}, "stack user is not in the new assembly", "instead: remove user first (cdk destroy"},
		"it imports still": {map[string]string{"core": bare, "user": uses}, "stack user imports it still", "instead: keep the export for one release"},
		"it is replaced":   {map[string]string{"core": replaced, "user": uses}, "stack user imports it still", "changes the export vpc, which is in use"},
	} {
		r := Compare(exporting(t, was), exporting(t, c.next), Options{})
		var refused []string
		for _, e := range r.Refused {
			if strings.Contains(e.What, "export") {
				refused = append(refused, e.Why)
			}
		}
		if got := strings.Join(refused, "\n"); (c.refused == "") != (got == "") || !strings.Contains(got, c.refused) {
			t.Errorf("%s: refused %q, want %q", name, got, c.refused)
		}
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), c.text) {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
}
