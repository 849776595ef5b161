package audit

import (
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// Security-group rules are counted for each direction and each address family by itself: a rule that names another
// group counts in both families, and a prefix list counts as its maximum of entries ("Amazon VPC quotas", security
// groups).
type ruleSet struct {
	group int32
	way   string // ingress or egress
}

// families counts in the families of addresses.
type groupFamilies struct{ v4, v6 *usage }

// managedLists are the weights of AWS's own prefix lists, by a part of their name ("AWS-managed prefix lists",
// weights, Amazon VPC User Guide).
var managedLists = map[string]int{
	"cloudfront.origin-facing": 55, "dynamodb": 1, "s3": 1, "ec2-instance-connect": 2, "route53-healthchecks": 25,
}

func (c *counter) countGroupRules() {
	at := map[ruleSet]*groupFamilies{}
	of := func(group int32, way string) *groupFamilies {
		k := ruleSet{group, way}
		if at[k] == nil {
			u := usage{limit: "vpc.sg-rules", rule: &ruleGroupRules, node: group, stack: -1, env: c.envOf(group)}
			v4, v6 := u, u
			v4.what, v6.what = way+" over IPv4", way+" over IPv6"
			at[k] = &groupFamilies{&v4, &v6}
		}
		return at[k]
	}
	for _, g := range c.types["AWS::EC2::SecurityGroup"] {
		for key, way := range map[string]string{"SecurityGroupIngress": "ingress", "SecurityGroupEgress": "egress"} {
			for _, r := range c.prop(g, key).items() {
				c.groupRule(of(g, way), g, r, exactly(1))
			}
		}
		if c.prop(g, "SecurityGroupEgress").Kind() == template.Null {
			of(g, "egress").v4.add(c, g, exactly(1)) // AWS lets everything out where nobody says otherwise
		}
	}
	for typ, way := range map[string]string{"AWS::EC2::SecurityGroupIngress": "ingress", "AWS::EC2::SecurityGroupEgress": "egress"} {
		for _, i := range c.types[typ] {
			for _, group := range c.named(i, "GroupId") {
				c.groupRule(of(group, way), i, c.prop(i), c.one(i))
			}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(at), func(a, b ruleSet) int {
		if a.group != b.group {
			return int(a.group - b.group)
		}
		return -strings.Compare(a.way, b.way)
	})
	for _, k := range sorted {
		c.usages = append(c.usages, *at[k].v4, *at[k].v6)
	}
}

// groupRule counts one rule in the families that it is of.
func (c *counter) groupRule(f *groupFamilies, from int32, r propValue, one span) {
	if a, b, ok := r.branches(); ok {
		// of the two the larger: a limit must hold for each
		if a.isNone() {
			a, b = b, a
		}
		if b.isNone() {
			one.least = 0
		}
		r = a
	}
	times := func(n span) span { return span{n.least * one.least, n.most * one.most} }
	has := func(key string) bool { return r.get(key).Kind() != template.Null }
	switch {
	case has("CidrIp"):
		f.v4.add(c, from, one)
	case has("CidrIpv6"):
		f.v6.add(c, from, one)
	case has("SourcePrefixListId") || has("DestinationPrefixListId"):
		v4, v6 := c.prefixList(from, r)
		if v4.most > 0 {
			f.v4.add(c, from, times(v4))
		}
		if v6.most > 0 {
			f.v6.add(c, from, times(v6))
		}
	case r.Kind() == template.Map:
		f.v4.add(c, from, one)
		f.v6.add(c, from, one)
	}
}

// prefixList is how many entries a rule's prefix list counts as, in each family. One that no template defines
// counts as one entry at least, in either family.
func (c *counter) prefixList(from int32, r propValue) (v4, v6 span) {
	id := r.get("SourcePrefixListId")
	if id.Kind() == template.Null {
		id = r.get("DestinationPrefixListId")
	}
	ref := id.GetString("Ref")
	if ref == "" {
		if att, ok := id.Node.Get("Fn::GetAtt"); ok && att.Len() > 0 && att.Kind() == template.List {
			ref, _ = att.At(0).Str()
		}
	}
	if i, ok := c.resources[c.nodes[from].stack][ref]; ok && c.nodes[i].typ == "AWS::EC2::PrefixList" {
		n, known := c.prop(i, "MaxEntries").number()
		if !known {
			n = c.prop(i, "Entries").length()
		}
		if c.prop(i, "AddressFamily").is("IPv6", false) {
			return span{}, n
		}
		return n, span{}
	}
	text := expression(id.Node)
	for name, weight := range managedLists {
		if strings.Contains(text, name) {
			return exactly(weight), span{}
		}
	}
	return exactly(1), span{0, 1}
}
