package audit

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// largeInput is cells of shards, each shard a stack of resources that refer to their neighbours, to the
// core stack by typed parameter, and to what they own by name and attribute.
func largeInput(b *testing.B, cells, shards, perStack int) Input {
	var in Input
	for c := range cells {
		core := object{}
		for k := range 20 {
			core[fmt.Sprintf("P%d", k)] = object{"Type": typeParameter, "Properties": object{"Name": fmt.Sprintf("/c%d/%d", c, k), "Value": object{"Ref": fmt.Sprintf("S%d", k)}}}
			core[fmt.Sprintf("S%d", k)] = object{"Type": "AWS::EC2::Subnet"}
		}
		env := Stack{Account: "111111111111", Region: "eu-west-1", Tags: map[string]string{"cellwall:service": "o", "cellwall:cell": fmt.Sprintf("c%d", c)}}
		cs := env
		cs.Name, cs.File = fmt.Sprintf("o-c%d-core", c), fmt.Sprintf("c%d.json", c)
		cs.Template = parse(b, object{"Resources": core})
		in.Stacks = append(in.Stacks, cs)
		for s := range shards {
			res := object{}
			for k := range perStack {
				id := fmt.Sprintf("R%d", k)
				switch k % 4 {
				case 0:
					res[id] = object{"Type": "AWS::DynamoDB::Table", "Properties": object{"TableName": fmt.Sprintf("o-c%d-s%d-%d", c, s, k)}}
				case 1:
					res[id] = object{"Type": typeFunction, "Properties": object{"Role": object{"Fn::GetAtt": []any{fmt.Sprintf("R%d", (k+1)%perStack), "Arn"}},
						"Environment": object{"Variables": object{"TABLE": object{"Ref": fmt.Sprintf("R%d", k-1)}, "SUBNET": object{"Ref": fmt.Sprintf("P%d", k%20)}}}}}
				case 2:
					res[id] = object{"Type": "AWS::IAM::Role", "Properties": object{"Policies": []any{object{"PolicyDocument": object{"Statement": []any{object{"Resource": object{"Fn::Sub": fmt.Sprintf("arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/o-c%d-s%d-%d", c, s, k-2)}}}}}}}}
				default:
					res[id] = object{"Type": "AWS::SQS::Queue", "DependsOn": fmt.Sprintf("R%d", k-1), "Properties": object{"Tags": []any{object{"Key": "k", "Value": "v"}}}}
				}
			}
			params := object{}
			for k := range 20 {
				params[fmt.Sprintf("P%d", k)] = object{"Type": "AWS::SSM::Parameter::Value<String>", "Default": fmt.Sprintf("/c%d/%d", c, k)}
			}
			st := env
			st.Name, st.File = fmt.Sprintf("o-c%d-shard-s%d", c, s), fmt.Sprintf("c%ds%d.json", c, s)
			st.Tags = map[string]string{"cellwall:service": "o", "cellwall:cell": fmt.Sprintf("c%d", c), "cellwall:shard": fmt.Sprintf("s%d", s)}
			st.Template = parse(b, object{"Parameters": params, "Resources": res})
			in.Stacks = append(in.Stacks, st)
		}
	}
	return in
}

// BenchmarkRun audits parsed templates: 25 cells of 20 shards in 525 stacks, 100,000 resources in the
// shards. B/op is all that one run allocates, and so more than it ever holds beside the templates, which
// hold parsed-B. cpu-s/op is the processor time of all threads, which a busy machine does not stretch.
func BenchmarkRun(b *testing.B) {
	in := largeInput(b, 25, 20, 200)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportAllocs()
	var r Report
	before := processorTime(b)
	for b.Loop() {
		r = Run(in, Options{})
	}
	b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(m.HeapAlloc), "parsed-B")
	for i := range r.Findings { // one account holds all of it, which is past some of its limits
		if f := &r.Findings[i]; f.Level >= Warning && !strings.HasPrefix(f.Rule, "QT") && f.Rule != "PL001" {
			b.Fatalf("found %+v", f)
		}
	}
	b.ReportMetric(float64(r.Summary.Resources), "resources")
	b.ReportMetric(float64(r.Summary.References), "references")
}

// processorTime is what the process has used so far, in user and system mode.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
