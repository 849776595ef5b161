package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// sharing is a fleet of cells with as many shards each, of which the first hit depend on one thing of nobody's.
func sharing(cells, each, hit int, typ string, link object) stackSet {
	s := stackSet{}
	s.put("shared", "Shared", typ, object{})
	s.export("shared", "shared", ref("Shared"))
	for i := range cells * each {
		st := fmt.Sprintf("orders-c%d-shard-s%02d", i/each+1, i%each+1)
		s.put(st, "Own", "AWS::SQS::Queue", object{})
		if i < hit {
			s.section(st, "Resources")["Link"] = link
		}
	}
	return s
}

// TestSeverityFollowsShare holds the levels at both sides of each bound.
func TestSeverityFollowsShare(t *testing.T) {
	use := object{"Type": "AWS::Lambda::Function", "Properties": object{"Role": imported("shared"), "Environment": object{"Variables": object{"TABLE_NAME": imported("shared")}}}}
	write := object{"Type": "AWS::IAM::Policy", "Properties": object{"Roles": []any{imported("shared")}}}
	const role, table = "AWS::IAM::Role", "AWS::DynamoDB::Table"
	fleet := func(cells, each int) *audit.Fleet {
		f := &audit.Fleet{Service: "orders"}
		for c := range cells {
			cell := audit.FleetCell{Name: fmt.Sprint("c", c+1), Account: "111111111111", Region: "eu-west-1"}
			for i := range each {
				cell.Shards = append(cell.Shards, fmt.Sprintf("s%02d", i+1))
			}
			f.Cells = append(f.Cells, cell)
		}
		return f
	}
	for name, c := range map[string]struct {
		cells, each, hit int
		typ              string
		link             object
		fleet            *audit.Fleet
		want             string
	}{
		"a role of all":                           {2, 4, 8, role, use, nil, "SI001 error"},
		"of all but one":                          {2, 4, 7, role, use, nil, "SI001 warning"},
		"of all of one cell":                      {2, 4, 4, role, use, nil, "SI001 warning"},
		"of all, one cell is all that was read":   {1, 4, 4, role, use, nil, "SI001 warning"},
		"of all of a fleet of one cell":           {1, 4, 4, role, use, fleet(1, 4), "SI001 warning"},
		"of all that were read, not of the fleet": {2, 4, 8, role, use, fleet(3, 4), "SI001 warning"},
		"of all of the fleet":                     {2, 4, 8, role, use, fleet(2, 4), "SI001 error"},
		"one that was not read":                   {2, 4, 8, role, use, fleet(2, 5), "SI001 warning"},
		"written by 3 of 60":                      {2, 30, 3, role, write, nil, "SI001 error"},
		"written by 2 of 60":                      {2, 30, 2, role, write, nil, "SI001 warning"},
		"written by 2 of 40":                      {2, 20, 2, role, write, nil, "SI001 error"},
		"written by 2 of 41, not all read":        {1, 40, 2, role, write, fleet(1, 41), "SI001 warning"},
		"used by 2 of 64":                         {1, 64, 2, role, use, nil, "SI001 warning"},
		"a table of 2 of 64":                      {1, 64, 2, table, use, nil, "SD002 error"},
		"of all of two cells":                     {2, 4, 8, table, use, nil, "SD002 error"},
		"a layer of all":                          {2, 4, 8, "AWS::Lambda::LayerVersion", use, nil, "SI006 warning"},
		"of a type nobody knows":                  {2, 4, 8, "AWS::RoboMaker::Fleet", use, nil, "SI000 warning"},
		"the network of all":                      {2, 4, 8, "AWS::EC2::VPC", use, nil, "SI008 warning"},
		"the network of all but one":              {2, 4, 7, "AWS::EC2::VPC", use, nil, "SI008 warning"},
		"the network of one cell":                 {2, 4, 4, "AWS::EC2::VPC", use, nil, "SI008 info"},
	} {
		r := audit.Run(sharing(c.cells, c.each, c.hit, c.typ, c.link).load(t), audit.Options{Fleet: c.fleet})
		i := slices.IndexFunc(r.Findings, func(f audit.Finding) bool {
			return len(f.Shards) > 0 && f.Resource != nil && f.Resource.LogicalID == "Shared"
		})
		if i < 0 {
			t.Errorf("%s: not found in %+v", name, r.Findings)
			continue
		}
		f := r.Findings[i]
		if got := f.Rule + " " + f.Level.String(); got != c.want {
			t.Errorf("%s: %s (%s), want %s", name, got, f.Reason, c.want)
		}
		if strings.HasPrefix(f.Rule, "SI") && (f.Level == audit.Error || strings.HasPrefix(name, "written")) && f.Reason == "" {
			t.Errorf("%s: %s without a reason", name, f.Level)
		}
	}
}

// TestPoolSeverity holds that a pool is an error only when all cells draw on it, and more than it has.
func TestPoolSeverity(t *testing.T) {
	for name, c := range map[string]struct {
		cells, draw, rate int
		level             string
	}{
		"all, more than there is": {3, 3, 14, "error"},
		"all, what there is":      {2, 2, 20, "warning"},
		"all but one, more":       {3, 2, 30, "warning"},
	} {
		s := stackSet{}
		for i := range c.cells {
			props := object{"ReservedConcurrentExecutions": 1}
			if i < c.draw {
				props["Environment"] = object{"Variables": object{"SSM_MAX_TPS": c.rate}}
			}
			s.put(fmt.Sprintf("orders-c%d-core", i+1), "Poller", "AWS::Lambda::Function", props)
		}
		if got := levelOf(s.run(t), "PL003"); got != c.level {
			t.Errorf("%s: %q, want %q", name, got, c.level)
		}
	}
}

// TestThrottlesDoNotDraw holds that throttles of all cells' APIs that add up to more than the account's rate stay a warning.
func TestThrottlesDoNotDraw(t *testing.T) {
	s := stackSet{}
	for _, cell := range []string{"c1", "c2"} {
		s.put("orders-"+cell+"-core", "Api", "AWS::ApiGatewayV2::Api", object{"ProtocolType": "HTTP"})
		s.put("orders-"+cell+"-core", "Stage", "AWS::ApiGatewayV2::Stage", object{"ApiId": ref("Api"), "DefaultRouteSettings": object{"ThrottlingRateLimit": 8000}})
	}
	if got := levelOf(s.run(t), "PL005"); got != "warning" {
		t.Errorf("%q", got)
	}
}

// TestPoolOfNoAccount holds that a pool of which no template says whose it is stays a warning.
func TestPoolOfNoAccount(t *testing.T) {
	const poller = "Resources:\n  Poller:\n    Type: AWS::Lambda::Function\n    Properties: {Environment: {Variables: {SSM_MAX_TPS: 30}}, ReservedConcurrentExecutions: 1}\n"
	in, err := assembly.Load(files("-- orders-c1-core.yaml orders-c2-core.yaml --\n" + poller))
	if err != nil {
		t.Fatal(err)
	}
	if got := levelOf(audit.Run(in, audit.Options{}), "PL003"); got != "warning" {
		t.Errorf("%q", got)
	}
}

// TestWorseFirst holds the order within a level: what loses more tenants first, then what more tenants have.
func TestWorseFirst(t *testing.T) {
	s := stackSet{}
	for _, q := range []struct {
		name   string
		shards []string
	}{
		{"Three", []string{"c1-shard-s01", "c1-shard-s02", "c1-shard-s03"}}, // a half of the tenants of c1 have no other
		{"Whole", []string{"c2-shard-s01", "c2-shard-s02"}},                 // all of the tenants of c2
		{"Apart", []string{"c1-shard-s01", "c3-shard-s01", "c3-shard-s02"}}, // none, where two of four serve a tenant
	} {
		s.put("shared", q.name, "AWS::SQS::Queue", object{})
		s.export("shared", "shared-"+q.name, ref(q.name))
		for _, sh := range q.shards {
			s.put("orders-"+sh, "Use"+q.name, "AWS::Lambda::Function", object{"Environment": object{"Variables": object{"QUEUE_URL": imported("shared-" + q.name)}}})
		}
	}
	for _, own := range []string{"c1-shard-s04", "c3-shard-s03", "c3-shard-s04"} {
		s.put("orders-"+own, "Own", "AWS::SQS::Queue", object{})
	}
	r := audit.Run(s.load(t), audit.Options{PerTenant: map[string]int{"": 2}})
	var order []string
	for _, f := range r.Findings {
		if f.Rule == "SD003" {
			order = append(order, f.Resource.LogicalID)
		}
	}
	// of the ten shards' tenants: Three loses 4 × 1/2, Whole 2 × 1, Apart 4 × 1/6; of Three 4 have one, of Whole 2
	if got := strings.Join(order, " "); got != "Three Whole Apart" {
		t.Errorf("%s", got)
	}
	r = audit.Run(s.load(t), audit.Options{PerTenant: map[string]int{"": 3}})
	order = nil
	for _, f := range r.Findings {
		if f.Rule == "SD003" {
			order = append(order, f.Resource.LogicalID)
		}
	}
	// Three loses 4 × 1/4, Whole, whose tenants have both, 2 × 1
	if got := strings.Join(order, " "); got != "Whole Three Apart" {
		t.Errorf("%s", got)
	}
}
