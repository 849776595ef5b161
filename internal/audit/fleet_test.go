package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestPartialAssembly holds that what the fleet has and the input lacks is named, and that its reservations count.
func TestPartialAssembly(t *testing.T) {
	fleet := &audit.Fleet{Service: "orders"}
	for _, c := range []string{"eu-1", "eu-2"} {
		fleet.Cells = append(fleet.Cells, audit.FleetCell{Name: c, Account: "111111111111", Region: "eu-west-1", Shards: []string{"s01", "s02"}, Reserved: 140, ShardReserved: 20})
	}
	all := func() map[string]deployed {
		s := map[string]deployed{}
		for _, cell := range []string{"eu-1", "eu-2"} {
			for _, part := range []string{"", "s01", "s02"} {
				tags := object{"cellwall:service": "orders", "cellwall:cell": cell}
				name, reserve := "orders-"+cell+"-core", 100
				if part != "" {
					tags["cellwall:shard"] = part
					name, reserve = "orders-"+cell+"-shard-"+part, 20
				}
				s[name] = deployed{tags: tags, template: object{"Resources": object{"F": object{"Type": "AWS::Lambda::Function", "Properties": object{
					"FunctionName": name, "ReservedConcurrentExecutions": reserve}}}}}
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		without []string
		unseen  int
		says    []string
	}{
		"all of it":              {nil, 0, nil},
		"a cell":                 {[]string{"orders-eu-2-core", "orders-eu-2-shard-s01", "orders-eu-2-shard-s02"}, 140, []string{"the fleet has cell eu-2 in account 111111111111, eu-west-1, and"}},
		"a shard":                {[]string{"orders-eu-2-shard-s02"}, 20, []string{"the fleet has 1 shard (s02) of cell eu-2 in"}},
		"a core":                 {[]string{"orders-eu-2-core"}, 100, []string{"the fleet has the core of cell eu-2 in"}},
		"all shards":             {[]string{"orders-eu-2-shard-s01", "orders-eu-2-shard-s02"}, 40, []string{"the fleet has all 2 shards of cell eu-2 in"}},
		"a core and a shard":     {[]string{"orders-eu-2-core", "orders-eu-2-shard-s01"}, 120, []string{"the fleet has 1 shard (s01) and the core of cell eu-2 in"}},
		"something of each cell": {[]string{"orders-eu-1-shard-s01", "orders-eu-2-shard-s01"}, 40, []string{"of cell eu-1 in", "of cell eu-2 in"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := all()
			for _, n := range c.without {
				delete(s, n)
			}
			r := audit.Run(manifestOf(t, s), audit.Options{Fleet: fleet})
			var says []string
			for _, f := range r.Findings {
				if f.Rule == "UN007" {
					says = append(says, f.Message)
				}
			}
			if len(says) != len(c.says) {
				t.Fatalf("says %q, want %q", says, c.says)
			}
			for i := range says {
				if !strings.Contains(says[i], c.says[i]) || !strings.Contains(says[i], "count from the fleet file") {
					t.Errorf("says %q, want %q", says[i], c.says[i])
				}
			}
			if p := r.Pools[0]; p.Unseen != c.unseen || p.Reserved != 280 || p.Left != 1000-100-280 {
				t.Errorf("pool %+v, want %d unseen and 280 reserved", p, c.unseen)
			}
		})
	}
	t.Run("the account is full by what was not read", func(t *testing.T) {
		fleet := *fleet
		fleet.Cells = append(fleet.Cells, audit.FleetCell{Name: "eu-3", Account: "111111111111", Region: "eu-west-1", Reserved: 700})
		r := audit.Run(manifestOf(t, all()), audit.Options{Fleet: &fleet})
		if levelOf(r, "QT002") != "error" || !strings.Contains(fmt.Sprint(r.Findings[0].Message), "eu-3: 700") {
			t.Errorf("%+v", r.Findings[0])
		}
	})
	t.Run("stacks of another service", func(t *testing.T) {
		s := map[string]deployed{"a": {tags: object{"cellwall:service": "billing", "cellwall:cell": "eu-1", "cellwall:shard": "s01"}, template: one("x")}}
		r := audit.Run(manifestOf(t, s), audit.Options{Fleet: fleet})
		if levelOf(r, "UN007") != "" || len(r.Pools) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestAnotherFleet holds that the fleet file of other stacks, as lies in the directory of who audits, says nothing of the
// tenants of these, and that a cell without a name is not spoken of.
func TestAnotherFleet(t *testing.T) {
	s := stackSet{}
	s.put(core, "Users", "AWS::Cognito::UserPool", object{})
	s.section(core, "Outputs")["O"] = object{"Value": object{"Ref": "Users"}, "Export": object{"Name": "users"}}
	for _, sh := range threeShards {
		s.put(shardStackName(sh), "F", "AWS::Lambda::Function", object{"ReservedConcurrentExecutions": 1, "Environment": object{"Variables": object{"X": object{"Fn::ImportValue": "users"}}}})
	}
	in := s.load(t)
	for service, known := range map[string]bool{"orders": true, "billing": false} {
		opt := audit.Options{PerTenant: map[string]int{"": 2}, Fleet: &audit.Fleet{Service: service, Cells: []audit.FleetCell{{Name: "eu-1", Shards: threeShards}}}}
		r := audit.Run(in, opt)
		if f := r.Findings[0]; f.Rule != "SD007" || (f.Hits.Tenants != nil) != known || !strings.Contains(f.Message, "user pool") || strings.Contains(f.Fix, "database") {
			t.Errorf("%s: %+v", service, f)
		}
	}
	r := audit.Run(in, audit.Options{Mapping: rulesOf(t, `stack:.*-(?P<shard>s\d+)`)})
	for _, f := range r.Findings {
		if f.Rule == "SD007" && strings.Contains(f.Message, "without a name") {
			t.Error(f.Message)
		}
	}
}
