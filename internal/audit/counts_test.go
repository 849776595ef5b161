package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/audit/limitdata"
	"cellwall.dev/cellwall/internal/template"
)

// counted runs all counting rules over one stack, and gives what is used of each limit by the part's name.
func counted(t testing.TB, resources object, more ...Stack) map[string]span {
	in := Input{Stacks: append([]Stack{{Name: "s", File: "s.json", Account: "111111111111", Region: "eu-west-1", Template: parse(t, object{"Resources": resources})}}, more...)}
	c := newCounter(build(in, Options{}), Options{Live: &Live{}}) // so that all is noted, however little
	c.count()
	out := map[string]span{}
	for i := range c.usages {
		u := &c.usages[i]
		key := u.limit
		if u.what != "" {
			key += " " + u.what
		}
		if u.used.most > 0 {
			out[key] = u.used
		}
	}
	return out
}

func res(typ string, properties object) object { return object{"Type": typ, "Properties": properties} }

// TestGroupRules holds the rules of counting of a security group, one by one.
func TestGroupRules(t *testing.T) {
	group := func(ingress ...any) object {
		return object{"G": res("AWS::EC2::SecurityGroup", object{"SecurityGroupIngress": ingress, "SecurityGroupEgress": []any{}}),
			"L": res("AWS::EC2::PrefixList", object{"MaxEntries": 20, "AddressFamily": "IPv4"}), "L6": res("AWS::EC2::PrefixList", object{"MaxEntries": 7, "AddressFamily": "IPv6"})}
	}
	for name, c := range map[string]struct {
		rules  []any
		v4, v6 span
	}{
		"an address":                 {[]any{object{"CidrIp": "192.0.2.0/24"}}, exactly(1), span{}},
		"an address of IPv6":         {[]any{object{"CidrIpv6": "2001:db8::/32"}}, span{}, exactly(1)},
		"a group counts in both":     {[]any{object{"SourceSecurityGroupId": object{"Ref": "G"}}}, exactly(1), exactly(1)},
		"a list by its maximum":      {[]any{object{"SourcePrefixListId": object{"Ref": "L"}}}, exactly(20), span{}},
		"a list of IPv6":             {[]any{object{"SourcePrefixListId": object{"Fn::GetAtt": []any{"L6", "PrefixListId"}}}}, span{}, exactly(7)},
		"AWS's list by its weight":   {[]any{object{"SourcePrefixListId": object{"Fn::FindInMap": []any{"x", "com.amazonaws.global.cloudfront.origin-facing", "id"}}}}, exactly(55), span{}},
		"a list of unknown size":     {[]any{object{"SourcePrefixListId": "pl-0123"}}, exactly(1), span{0, 1}},
		"one that may not be":        {[]any{object{"Fn::If": []any{"C", object{"CidrIp": "192.0.2.0/24"}, object{"Ref": "AWS::NoValue"}}}}, span{0, 1}, span{}},
		"a sum over several of them": {[]any{object{"CidrIp": "192.0.2.0/24"}, object{"SourcePrefixListId": object{"Ref": "L"}}, object{"SourceSecurityGroupId": "sg-1"}}, exactly(22), exactly(1)},
	} {
		got := counted(t, group(c.rules...))
		if got["vpc.sg-rules ingress over IPv4"] != c.v4 || got["vpc.sg-rules ingress over IPv6"] != c.v6 {
			t.Errorf("%s: %v and %v, want %v and %v", name, got["vpc.sg-rules ingress over IPv4"], got["vpc.sg-rules ingress over IPv6"], c.v4, c.v6)
		}
		if n := got["vpc.sg-rules egress over IPv4"]; n.most != 0 {
			t.Errorf("%s: egress %v, and none is written", name, n)
		}
	}
	if n := counted(t, object{"G": res("AWS::EC2::SecurityGroup", object{})})["vpc.sg-rules egress over IPv4"]; n != exactly(1) {
		t.Errorf("the rule that lets everything out counts as %v", n)
	}
	// standalone rules, in another stack by an import and conditional
	other := Stack{Name: "o", File: "o.json", Account: "111111111111", Region: "eu-west-1", Template: parse(t, object{"Resources": object{
		"A": res("AWS::EC2::SecurityGroupIngress", object{"GroupName": "x", "GroupId": "sg-0123456789abcdef0", "CidrIp": "192.0.2.1/32"}),
		"B": object{"Type": "AWS::EC2::SecurityGroupIngress", "Condition": "C", "Properties": object{"GroupId": "sg-0123456789abcdef0", "CidrIp": "192.0.2.2/32"}}}})}
	got := counted(t, object{"A": res("AWS::EC2::SecurityGroupIngress", object{"GroupId": "sg-0123456789abcdef0", "CidrIp": "192.0.2.3/32"})}, other)
	if n := got["vpc.sg-rules ingress over IPv4"]; n != (span{2, 3}) {
		t.Errorf("three rules of two stacks, one conditional, at a group that no template defines: %v", n)
	}
}

// TestCounts holds single counting rules by small examples.
func TestCounts(t *testing.T) {
	list := func(n int) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = fmt.Sprint("x", i)
		}
		return out
	}
	for name, c := range map[string]struct {
		resources object
		limit     string
		want      span
	}{
		"layers":                          {object{"F": res(typeFunction, object{"Layers": list(4)})}, "lambda.layers", exactly(4)},
		"a list that a parameter decides": {object{"F": res(typeFunction, object{"Layers": object{"Ref": "P"}})}, "lambda.layers", span{}},
		"a list of two branches": {object{"F": res(typeFunction, object{"Layers": object{"Fn::If": []any{"C", list(2), list(5)}}})},
			"lambda.layers", span{2, 5}},
		"names of a certificate": {object{"C": res("AWS::CertificateManager::Certificate", object{"DomainName": "a", "SubjectAlternativeNames": list(3)})}, "acm.domains", exactly(4)},
		"a conditional resource": {object{"A": res("AWS::EC2::EIP", nil), "B": object{"Type": "AWS::EC2::EIP", "Condition": "C"}}, "ec2.eips", span{1, 2}},
		"an NLB is no ALB":       {object{"A": res(typeLoadBalancer, object{"Type": "network"})}, "elb.albs-per-region", span{}},
		"a gateway endpoint":     {object{"A": res("AWS::EC2::VPCEndpoint", nil)}, "vpc.gateway-endpoints", exactly(1)},
		"an interface endpoint":  {object{"A": res("AWS::EC2::VPCEndpoint", object{"VpcEndpointType": "Interface"})}, "vpc.gateway-endpoints", span{}},
		"CDK's log policy":       {object{"A": object{"Type": "Custom::CloudwatchLogResourcePolicy"}}, "logs.resource-policies", exactly(1)},
		"rules of the default bus": {object{"A": res("AWS::Events::Rule", nil), "B": res("AWS::Events::Rule", object{"EventBusName": "default"})},
			"eb.rules on the default bus", exactly(2)},
		"dynamic references": {object{"A": res("AWS::SNS::Topic", object{"DisplayName": "{{resolve:ssm:a}}{{resolve:ssm:b}}"})}, "cfn.dynamic-refs", exactly(2)},
		"a time-out":         {object{"F": res(typeFunction, object{"Timeout": 900})}, "lambda.timeout", exactly(900)},
		"a role's policies over both ways": {object{"R": res("AWS::IAM::Role", object{"ManagedPolicyArns": list(3)}), "P": res("AWS::IAM::ManagedPolicy", object{"Roles": []any{object{"Ref": "R"}}})},
			"iam.managed-per-role", exactly(4)},
		"targets in both forms": {object{"L": res(typeLoadBalancer, nil), "H": res(typeListener, object{"LoadBalancerArn": object{"Ref": "L"}, "DefaultActions": []any{object{"TargetGroupArn": object{"Ref": "T"}}}}),
			"T": res(typeTargetGroup, object{"Targets": list(2)}), "G": res(typeGroup, object{"MaxSize": "7", "TargetGroupARNs": []any{object{"Ref": "T"}}}),
			"S": res("AWS::ECS::Service", object{"DesiredCount": 5, "LoadBalancers": []any{object{"TargetGroupArn": object{"Ref": "T"}}}})}, "alb.targets", exactly(14)},
	} {
		if got := counted(t, c.resources)[c.limit]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLevels holds at which number a finding has which level.
func TestLevels(t *testing.T) {
	for name, c := range map[string]struct {
		usage usage
		live  float64
		want  string
	}{
		"below 80 %":                           {usage{limit: "vpc.sgs", used: exactly(1999)}, 0, ""},
		"80 %":                                 {usage{limit: "vpc.sgs", used: exactly(2000)}, 0, "warning"},
		"at the limit":                         {usage{limit: "vpc.sgs", used: exactly(2500)}, 0, "warning"},
		"past an adjustable one":               {usage{limit: "vpc.sgs", used: exactly(2501)}, 0, "error"},
		"past how far it is raised":            {usage{limit: "vpc.routes", used: exactly(1001)}, 0, "fatal"},
		"past a hard one":                      {usage{limit: "lambda.layers", used: exactly(6)}, 0, "fatal"},
		"perhaps past":                         {usage{limit: "vpc.sgs", used: span{10, 2501}}, 0, "review"},
		"near, perhaps past":                   {usage{limit: "vpc.sgs", used: span{2000, 2501}}, 0, "warning"},
		"past an uncertain one":                {usage{limit: "cw.alarms", used: exactly(6000)}, 0, "review"},
		"past an uncertain one of the account": {usage{limit: "cw.alarms", used: exactly(6000), whole: true}, 5500, "error"},
		"raised by the account":                {usage{limit: "vpc.sgs", used: exactly(2501), whole: true}, 5000, ""},
		"a setting at its maximum":             {usage{limit: "lambda.timeout", used: exactly(900), setting: true}, 0, ""},
		"a setting past it":                    {usage{limit: "lambda.timeout", used: exactly(901), setting: true}, 0, "fatal"},
	} {
		e := env{"111111111111", "eu-west-1"}
		opt := Options{}
		if c.live > 0 {
			opt.Live = &Live{Places: []LivePlace{{Account: e.account, Region: e.region, Limits: map[string]LiveLimit{c.usage.limit: {Max: c.live}}}}}
		}
		u := c.usage
		u.rule, u.node, u.stack, u.env = &rulePart, -1, -1, e
		f, ok := newCounter(&graph{}, opt).judge(&u)
		got := ""
		if ok {
			got = f.level.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	u := usage{limit: "ec2.eips", rule: &rulePlace, node: -1, stack: -1, env: env{unknownAccount, unknownRegion}, whole: true, used: exactly(6)}
	if f, ok := newCounter(&graph{}, Options{}).judge(&u); !ok || f.level != Warning || f.reason == "" {
		t.Errorf("six addresses of nobody's account: %+v", f)
	}
}

// TestCountedLimitsAreInTheCatalogue holds that every counting rule counts something that has a number.
func TestCountedLimitsAreInTheCatalogue(t *testing.T) {
	check := func(id string) {
		if l, ok := limitdata.Get(id); !ok || l.Default == nil {
			t.Errorf("%s is counted and has no number", id)
		}
	}
	for _, p := range placeCounts {
		check(p.limit)
		if l, _ := limitdata.Get(p.limit); l.Scope != "per-account-region" && l.Scope != "per-account" {
			t.Errorf("%s is counted over an account and is %s", p.limit, l.Scope)
		}
	}
	for _, p := range partCounts {
		check(p.limit)
	}
	for _, p := range listCounts {
		check(p.limit)
	}
	for _, p := range settings {
		check(p.limit)
	}
	for _, p := range documentCounts {
		check(p.limit)
	}
	for _, p := range ratePools {
		check(p.limit)
	}
	for _, p := range countedPools {
		check(p.limit)
	}
}

// TestJSONSizeIsTheSize holds, of a document in which nothing is to be put in, that its size is that of its JSON
// without white space.
func TestJSONSizeIsTheSize(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		scalars := rapid.OneOf(rapid.Map(rapid.StringMatching(`[ -~é\n"\\]{0,12}`), func(s string) any { return s }),
			rapid.Map(rapid.IntRange(-5, 99999), func(i int) any { return i }), rapid.Map(rapid.Bool(), func(b bool) any { return b }))
		if depth == 0 {
			return scalars
		}
		return rapid.OneOf(scalars, rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.StringMatching(`[A-Z][a-z:"]{0,6}`), rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 4), func(m map[string]any) any { return m }))
	}
	c := newCounter(&graph{}, Options{})
	c.resources = make([]map[string]int32, 1)
	rapid.Check(t, func(t *rapid.T) {
		v := object{"Version": "2012-10-17", "X": value(3).Draw(t, "value")}
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		n, err := template.DecodeJSON([]byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		want := exactly(len(b.String()) - len("\n"))
		if got := c.jsonSize(0, propValue{n, &template.Scope{}}); got != want {
			t.Fatalf("%v, want %v: %s", got, want, b.String())
		}
	})
}

// TestHolesMakeRanges holds that the true size lies within the range, whatever a deployment puts in.
func TestHolesMakeRanges(t *testing.T) {
	got := counted(t, object{
		"Named":   res("AWS::SQS::Queue", object{"QueueName": "orders"}),
		"Unnamed": res("AWS::SQS::Queue", nil),
		"P": res("AWS::IAM::ManagedPolicy", object{"PolicyDocument": object{"Statement": []any{object{"Resource": []any{
			object{"Fn::GetAtt": []any{"Named", "Arn"}}, object{"Fn::GetAtt": []any{"Unnamed", "Arn"}}, object{"Ref": "AWS::NoValue"}}}}}}),
	})["iam.managed-size"]
	for _, made := range []string{"s-Unnamed-ABCDEFGHIJKL", "s-Unnamed-ABCDEFGHIJKLM"} {
		true := len(`{"Statement":[{"Resource":["arn:aws:sqs:eu-west-1:111111111111:orders","arn:aws:sqs:eu-west-1:111111111111:` + made + `"]}]}`)
		if true < got.least || true > got.most || got.most-got.least > 1 {
			t.Errorf("%d is not within %v", true, got)
		}
	}
}

func TestVCPUs(t *testing.T) {
	for typ, want := range map[string]int{"t4g.small": 2, "t2.micro": 1, "t2.medium": 2, "m7g.medium": 1, "c7i.large": 2, "r6g.xlarge": 4, "m5.24xlarge": 96,
		"p4d.24xlarge": 0, "g5.xlarge": 0, "inf2.xlarge": 0, "trn1.2xlarge": 0, "m5.metal": 0, "nonsense": 0, "": 0, "hpc7a.96xlarge": 0, "m5.xlargexlarge": 0} {
		if got := vcpusOf(propValue{template.NewString(typ), &template.Scope{}}); got != exactly(want) {
			t.Errorf("%s has %v, want %d", typ, got, want)
		}
	}
}

// TestHits holds the shares of shards and tenants: two of four shards, two for each tenant.
func TestHits(t *testing.T) {
	g := &graph{}
	for i := range 4 {
		g.shards = append(g.shards, Shard{Cell: "c", ID: fmt.Sprint("s", i)})
	}
	h := g.hits(&finding{shards: []int32{0, 1}}, &Options{PerTenant: map[string]int{"": 2}})
	// of the six pairs one is lost, and one keeps out
	if h.Shards != 2 || h.Of != 4 || h.Cells != 1 || *h.Tenants != rounded(5.0/6) || *h.Lost != rounded(1.0/6) {
		t.Errorf("%+v: %v hit, %v lost", h, *h.Tenants, *h.Lost)
	}
	if h = g.hits(&finding{on: []int32{3}}, &Options{}); h.Shards != 1 || h.Tenants != nil {
		t.Errorf("%+v", h)
	}
	if h = g.hits(&finding{}, &Options{}); h != nil {
		t.Errorf("%+v", h)
	}
}
