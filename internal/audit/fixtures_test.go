package audit_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

var update = flag.Bool("update", false, "write the reports of testdata anew")

// TestFixtures audits each directory of testdata and compares the whole text report.
func TestFixtures(t *testing.T) {
	dirs, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == "fuzz" {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			in, err := assembly.Load(os.DirFS(filepath.Join("testdata", d.Name())))
			if err != nil {
				t.Fatal(err)
			}
			r := audit.Run(in, audit.Options{})
			var b strings.Builder
			if err := r.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", d.Name()+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("report of %s:\n%s\nwant:\n%s", d.Name(), b.String(), want)
			}
		})
	}
}

// sharedALB is n shards behind one load balancer: rules in the shards' stacks, or default actions and
// weighted forwards in the core stack.
func sharedALB(n int, weighted bool) stackSet {
	s := stackSet{}
	s.put(core, "Alb", "AWS::ElasticLoadBalancingV2::LoadBalancer", object{"Name": "all"})
	s.put(core, "Http", "AWS::ElasticLoadBalancingV2::Listener", object{"LoadBalancerArn": object{"Ref": "Alb"}, "DefaultActions": []any{}})
	s.section(core, "Outputs")["L"] = object{"Value": object{"Ref": "Http"}, "Export": object{"Name": "listener"}}
	var forwards []any
	for i := range n {
		st := shardStackName(fmt.Sprintf("s%03d", i))
		s.put(st, "Targets", "AWS::ElasticLoadBalancingV2::TargetGroup", object{})
		if weighted {
			s.section(st, "Outputs")["T"] = object{"Value": object{"Ref": "Targets"}, "Export": object{"Name": fmt.Sprint("t", i)}}
			forwards = append(forwards, object{"TargetGroupArn": object{"Fn::ImportValue": fmt.Sprint("t", i)}})
			continue
		}
		for _, rule := range []string{"Rule", "Again"} { // a group that two rules name counts once
			s.put(st, rule, "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": object{"Fn::ImportValue": "listener"},
				"Actions": []any{object{"Type": "forward", "TargetGroupArn": object{"Ref": "Targets"}}}})
		}
	}
	if weighted {
		listener := s.section(core, "Resources")["Http"].(object)["Properties"].(object)
		listener["DefaultActions"] = []any{object{"ForwardConfig": object{"TargetGroups": forwards[:n/2]}}}
		s.put(core, "Rule", "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": object{"Ref": "Http"},
			"Actions": []any{object{"ForwardConfig": object{"TargetGroups": forwards[n/2:]}}}})
	}
	return s
}

func TestTargetGroupsPerLoadBalancer(t *testing.T) {
	for _, c := range []struct {
		n     int
		level string
	}{{79, ""}, {80, "warning"}, {100, "warning"}, {101, "fatal"}} {
		for _, weighted := range []bool{false, true} {
			r := sharedALB(c.n, weighted).run(t)
			level := ""
			for _, f := range r.Findings {
				if f.Rule != "QT001" {
					continue
				}
				level = f.Level.String()
				if f.Limit.Used != c.n || f.Limit.Max != 100 || !f.Limit.Hard || f.Resource.LogicalID != "Alb" {
					t.Errorf("%d: limit %+v", c.n, f.Limit)
				}
			}
			if level != c.level {
				t.Errorf("%d target groups, weighted %v: %q, want %q", c.n, weighted, level, c.level)
			}
			if r.Findings[0].Rule != "QT001" && c.level == "fatal" {
				t.Errorf("the fatal finding is not the first: %s", r.Findings[0].Rule)
			}
		}
	}
}

func TestReservedConcurrency(t *testing.T) {
	for _, c := range []struct {
		reserve, account int
		level            string
	}{{239, 0, ""}, {240, 0, "warning"}, {300, 0, "warning"}, {301, 0, "error"}, {301, 1100, "warning"}, {1, 100, "error"}} {
		s, _ := cleanFleet(false)
		for _, sh := range threeShards {
			s.section(shardStackName(sh), "Resources")["Worker"].(object)["Properties"].(object)["ReservedConcurrentExecutions"] = c.reserve
		}
		in := s.load(t)
		r := audit.Run(in, audit.Options{Concurrency: map[string]int{"111111111111": c.account}})
		level := ""
		for _, f := range r.Findings {
			if f.Rule == "QT002" {
				level = f.Level.String()
			}
		}
		if level != c.level {
			t.Errorf("3 × %d of %d: %q, want %q", c.reserve, c.account, level, c.level)
		}
		if p := r.Pools[0]; p.Reserved != 3*c.reserve || p.Functions != 3 || p.Left != p.Limit-100-3*c.reserve || p.Cells[0].Cell != "eu-1" {
			t.Errorf("pool %+v", p)
		}
	}
}

// TestParallelCellsAreApart checks that equal shard ids of two cells are not one shard.
func TestParallelCellsAreApart(t *testing.T) {
	s := stackSet{}
	for _, cell := range []string{"eu-1", "eu-2"} {
		s.put("orders-"+cell+"-shard-s01", "Queue", "AWS::SQS::Queue", object{"RedrivePolicy": object{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:111111111111:graveyard"}})
	}
	r := s.run(t)
	if len(r.Summary.Shards) != 2 || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "2 of 2 shards of 2 cells (orders-eu-1, orders-eu-2)") {
		t.Errorf("%+v", r.Findings)
	}
}
