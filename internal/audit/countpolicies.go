package audit

import (
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// documentCount is a limit on the size of one policy document.
type documentCount struct {
	limit, typ, property string
}

var documentCounts = []documentCount{
	{"iam.managed-size", "AWS::IAM::ManagedPolicy", "PolicyDocument"},
	{"iam.trust-size", "AWS::IAM::Role", "AssumeRolePolicyDocument"},
	{"sqs.policy", "AWS::SQS::QueuePolicy", "PolicyDocument"},
	{"kms.policy", "AWS::KMS::Key", "KeyPolicy"},
	{"sm.policy", "AWS::SecretsManager::ResourcePolicy", "ResourcePolicy"},
	{"logs.resource-policy-size", typeLogsPolicy, "PolicyDocument"},
}

func (c *counter) countPolicies() {
	add := func(limit string, i int32, size span, fix string) {
		if c.far(limit, c.envOf(i), size) {
			return
		}
		u := usage{limit: limit, rule: &rulePolicySize, node: i, stack: -1, env: c.envOf(i), fix: fix}
		u.add(c, i, size)
		c.usages = append(c.usages, u)
	}
	for _, d := range documentCounts {
		for _, i := range c.types[d.typ] {
			if doc := c.prop(i, d.property); doc.Kind() != template.Null {
				add(d.limit, i, c.documentSize(i, doc), "")
			}
		}
	}
	c.countInline()
	c.countGrants()
	for _, i := range c.types[typeFunction] {
		vars := c.prop(i, "Environment", "Variables")
		size := span{}
		for k := range vars.Len() {
			if vars.Kind() == template.Map {
				value := c.textSize(c.nodes[i].stack, propValue{vars.At(k), vars.scope})
				size = size.plus(exactly(len(vars.Key(k)) - len(`""`))).plus(value)
			}
		}
		if size.most > 0 {
			add("lambda.env-size", i, size, "put the values into one parameter or secret that the function reads at its start")
		}
	}
}

// documentSize is the size of a policy: an object, or, for some services, a string that holds one.
func (c *counter) documentSize(i int32, doc propValue) span {
	stack := c.nodes[i].stack
	if s, ok := doc.Str(); ok {
		return exactly(len(strings.TrimSpace(s)))
	}
	if _, _, branches := doc.branches(); !branches && doc.Len() == 1 && (doc.Key(0) == "Ref" || strings.HasPrefix(doc.Key(0), "Fn::")) {
		return c.unescapedSize(stack, doc)
	}
	return c.jsonSize(stack, doc)
}

// unescapedSize is the size of a text as it is, without quotes.
func (c *counter) unescapedSize(i int32, p propValue) span {
	out := span{}
	for k, t := range p.scope.Eval(p.Node) {
		n := span{}
		for _, part := range t {
			if part.Hole != "" {
				n = n.plus(c.holeSize(i, part.Hole))
			} else {
				n = n.plus(exactly(len(part.Literal)))
			}
		}
		if k == 0 {
			out = n
		}
		out = out.or(n)
	}
	return out
}

// countInline sums the inline policies of each role, over every stack that adds one.
func (c *counter) countInline() {
	type policy struct {
		role, from int32
		size       span
	}
	var policies []policy
	for _, role := range c.types["AWS::IAM::Role"] {
		for _, p := range c.prop(role, "Policies").items() {
			if doc := p.get("PolicyDocument"); doc.Kind() != template.Null {
				policies = append(policies, policy{role, role, c.documentSize(role, doc)})
			}
		}
	}
	for typ, property := range map[string]string{"AWS::IAM::Policy": "Roles", "AWS::IAM::RolePolicy": "RoleName"} {
		for _, p := range c.types[typ] {
			size := c.documentSize(p, c.prop(p, "PolicyDocument"))
			if c.one(p).least == 0 {
				size.least = 0
			}
			for _, role := range c.named(p, property) {
				if c.nodes[role].typ == "AWS::IAM::Role" {
					policies = append(policies, policy{role, p, size})
				}
			}
		}
	}
	sizes := map[int32]span{}
	for _, p := range policies {
		sizes[p.role] = sizes[p.role].plus(p.size)
	}
	roles := map[int32]*usage{}
	for _, p := range policies {
		const limit = "iam.inline-role"
		if c.far(limit, c.envOf(p.role), sizes[p.role]) {
			continue
		}
		if roles[p.role] == nil {
			roles[p.role] = &usage{limit: limit, rule: &rulePolicySize, node: p.role, stack: -1, env: c.envOf(p.role)}
		}
		roles[p.role].add(c, p.from, p.size)
	}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		c.usages = append(c.usages, *roles[role])
	}
}

// emptyGrants is a function's policy before the first statement.
const emptyGrants = `{"Version":"2012-10-17","Id":"default","Statement":[]}`

// countGrants sums the statements that permissions put into the policy of each function, alias or version.
func (c *counter) countGrants() {
	of := map[int32]*usage{}
	for _, p := range c.types["AWS::Lambda::Permission"] {
		for _, f := range c.named(p, "FunctionName") {
			if of[f] == nil {
				of[f] = &usage{limit: "lambda.policy-size", rule: &rulePolicySize, node: f, stack: -1, env: c.envOf(f), used: exactly(len(emptyGrants) - len(",")),
					fix: "grant once for all with a wildcard in SourceArn, one statement for many rules, instead of one for each"}
			}
			of[f].add(c, p, c.statementSize(p, f))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(of)) {
		c.usages = append(c.usages, *of[f])
	}
}

// statementSize is the size of what Lambda writes for one permission, with the comma behind it.
func (c *counter) statementSize(p, function int32) span {
	stack := c.nodes[p].stack
	text := func(key string) span {
		v := c.prop(p, key)
		if v.Kind() == template.Null {
			return span{}
		}
		return c.textSize(stack, v)
	}
	sid := len(c.stacks[stack].Name) + len("-") + len(c.nodes[p].id) + generatedTail
	size := exactly(len(`{"Sid":"","Effect":"Allow","Principal":{},"Action":,"Resource":""},`)).plus(span{sid, sid + 1})
	principal, _ := c.prop(p, "Principal").text()
	switch {
	case principal == "*":
		size = size.plus(exactly(len(`"*"`) - len(`{}`)))
	case strings.Contains(principal, "amazonaws.com"):
		size = size.plus(exactly(len(`"Service":`))).plus(text("Principal"))
	case isAccount(principal):
		size = size.plus(exactly(len(`"AWS":"arn:aws:iam::111111111111:root"`)))
	default:
		size = size.plus(exactly(len(`"AWS":`))).plus(text("Principal"))
	}
	size = size.plus(text("Action")).plus(c.functionARN(function))
	conditions := 0
	add := func(operator, key, property string) {
		if v := text(property); v.most > 0 {
			conditions++
			size = size.plus(exactly(len(operator) + len(key) + len(`"":{"":}`))).plus(v)
		}
	}
	add("ArnLike", "AWS:SourceArn", "SourceArn")
	add("StringEquals", "AWS:SourceAccount", "SourceAccount")
	add("StringEquals", "aws:PrincipalOrgID", "PrincipalOrgID")
	if conditions > 0 {
		size = size.plus(exactly(len(`,"Condition":{}`) + conditions - 1))
	}
	if c.one(p).least == 0 {
		size.least = 0
	}
	return size
}

// isAccount says whether a principal is an account's number.
func isAccount(s string) bool {
	return len(s) == len("111111111111") && strings.Trim(s, "0123456789") == ""
}

// functionARN is the size of the ARN of a function, or of its alias.
func (c *counter) functionARN(f int32) span {
	if n := &c.nodes[f]; n.stack < 0 {
		return exactly(len(n.id))
	}
	if c.nodes[f].typ == typeFunction {
		return c.arnSize(f, c.nameSize(f))
	}
	alias := exactly(len(":1"))
	if name := c.prop(f, "Name"); name.Kind() != template.Null {
		alias = c.unescapedSize(c.nodes[f].stack, name).plus(exactly(len(":")))
	}
	for _, whole := range c.named(f, "FunctionName") {
		if c.nodes[whole].typ == typeFunction && c.nodes[whole].stack >= 0 {
			return c.arnSize(whole, c.nameSize(whole)).plus(alias)
		}
	}
	return alias.plus(span{20, longestARN})
}
