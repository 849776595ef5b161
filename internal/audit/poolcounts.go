package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// countedPool is a limit of an account on things of which each cell has some.
type countedPool struct {
	rule  *rule
	limit string
	count func(c *counter, add func(i int32, n span))
	// only is why nothing is counted against the limit unless the account itself says it.
	liveOnly bool
}

var countedPools = []countedPool{
	{&rulePoolPolicies, "logs.resource-policies", func(c *counter, add func(int32, span)) {
		for _, typ := range []string{typeLogsPolicy, typeCustomLogsPolicy} {
			for _, i := range c.types[typ] {
				add(i, c.one(i))
			}
		}
	}, false},
	{&rulePoolEIP, "ec2.eips", func(c *counter, add func(int32, span)) {
		for _, i := range c.types["AWS::EC2::EIP"] {
			add(i, c.one(i))
		}
	}, false},
	{&rulePoolDynamo, "ddb.account-rcu", func(c *counter, add func(int32, span)) { c.provisioned("ReadCapacityUnits", add) }, false},
	{&rulePoolDynamo, "ddb.account-wcu", func(c *counter, add func(int32, span)) { c.provisioned("WriteCapacityUnits", add) }, false},
	// the published default is that of an account of today, which no account with a service in it still has
	{&rulePoolVCPU, "ec2.vcpu-ondemand-standard", (*counter).vcpus, true},
}

// countedPools say which pools several cells take their things from, with the sum. Sums that the counting rules do
// not know are judged as they are.
func (c *counter) countedPools() []finding {
	var out []finding
	for _, cp := range countedPools {
		p, used := pool{}, map[env]*usage{}
		cp.count(c, func(i int32, n span) {
			e := c.envOf(i)
			p.of(e).by(c, i)
			c.inPlace(used, cp.limit, e).add(c, i, n)
		})
		for _, e := range slices.SortedFunc(maps.Keys(p), compareEnv) {
			d, u := p[e], used[e]
			b, ok := c.bound(cp.limit, e)
			if !ok {
				continue
			}
			known := b.from != LimitDefault || !cp.liveOnly
			if strings.HasPrefix(cp.limit, "ddb.") || cp.liveOnly && known {
				if f, ok := c.judge(u); ok {
					out = append(out, f)
				}
			}
			if len(d.cells) < 2 {
				continue
			}
			f := c.poolFinding(cp.rule, &b, e, d)
			f.limit.Used = u.used.least
			if known {
				f.message = fmt.Sprintf("%d cells (%s) take %s of %s of %s: %s", len(d.cells), sum(u.by), u.used, number(b.max), e, lowerFirst(b.Name)) + c.whence(&b)
			} else {
				f.message = fmt.Sprintf("%d cells (%s) take up to %s of what %s has: %s (the account's number is not known; %s)",
					len(d.cells), sum(u.by), u.used, e, lowerFirst(b.Name), b.Notes)
				f.limit = nil
			}
			out = append(out, f)
		}
	}
	return out
}

// provisioned adds what tables have provisioned, their indexes included, or what scaling may make of it. Tables on
// demand do not draw on the account's sum.
func (c *counter) provisioned(unit string, add func(int32, span)) {
	for _, i := range c.types["AWS::DynamoDB::Table"] {
		if c.prop(i, "BillingMode").is("PAY_PER_REQUEST", false) {
			continue
		}
		n := span{}
		if k, ok := c.prop(i, "ProvisionedThroughput", unit).number(); ok {
			n = n.plus(k)
		}
		for _, index := range c.prop(i, "GlobalSecondaryIndexes").items() {
			if k, ok := index.get("ProvisionedThroughput").get(unit).number(); ok {
				n = n.plus(k)
			}
		}
		if n.most > 0 {
			add(i, n)
		}
	}
}

// vcpus adds what the instances of standard families have at most.
func (c *counter) vcpus(add func(int32, span)) {
	for _, i := range c.types[typeGroup] {
		size, ok := c.prop(i, "MaxSize").number()
		if !ok {
			continue
		}
		most := span{}
		for _, o := range c.prop(i, "MixedInstancesPolicy", "LaunchTemplate", "Overrides").items() {
			if v := vcpusOf(o.get("InstanceType")); v.most > most.most {
				most = v
			}
		}
		for _, key := range []string{"LaunchTemplate", "MixedInstancesPolicy", "LaunchConfigurationName"} {
			for _, lt := range c.named(i, key) {
				for _, path := range [][]string{{"LaunchTemplateData", "InstanceType"}, {"InstanceType"}} {
					if v := vcpusOf(c.prop(lt, path...)); most.most == 0 && v.most > 0 {
						most = v
					}
				}
			}
		}
		if most.most > 0 && size.most > 0 {
			add(i, span{size.least * most.least, size.most * most.most})
		}
	}
	for _, i := range c.types["AWS::EC2::Instance"] {
		if v := vcpusOf(c.prop(i, "InstanceType")); v.most > 0 {
			add(i, v)
		}
	}
}

// vcpusOf is how many vCPUs an instance type of a standard family has, none when it is not known or of another
// family. Sizes count alike over the families: 4 for each xlarge ("Amazon EC2 instance types").
func vcpusOf(p propValue) span {
	if p.Kind() == template.Null {
		return span{}
	}
	name, ok := p.text()
	family, size, found := strings.Cut(name, ".")
	if !ok || !found || family == "" || !strings.Contains("acdhimrtz", family[:1]) || strings.HasPrefix(family, "inf") || strings.HasPrefix(family, "dl") || strings.HasPrefix(family, "trn") || strings.HasPrefix(family, "hpc") {
		return span{}
	}
	times, xl := strings.CutSuffix(size, "xlarge")
	switch {
	case xl && times == "":
		return exactly(4)
	case xl:
		n, err := strconv.Atoi(times)
		if err != nil || n < 0 || n > 1000 {
			return span{}
		}
		return exactly(4 * n)
	case size == "large":
		return exactly(2)
	case size == "nano" || size == "micro" || size == "small" || size == "medium":
		if family[0] == 't' && family != "t2" && family != "t1" || family == "t2" && size == "medium" {
			return exactly(2)
		}
		return exactly(1)
	}
	return span{}
}
