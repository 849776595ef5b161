package audit

import (
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// IAM and the services' policies are bounded in bytes of JSON without white space, as it is after CloudFormation put
// everything in. What is not known before a deployment makes the size a range.

// jsonSize is how many bytes a value of stack i has as JSON without white space.
func (c *counter) jsonSize(i int32, p propValue) span {
	switch p.Kind() {
	case template.Null:
		return exactly(len("null"))
	case template.Bool, template.Number:
		s, _ := p.Scalar()
		return exactly(len(s))
	case template.String:
		return c.textSize(i, p)
	case template.List:
		return c.joinSize(len("[]"), p, func(_ int, item propValue) span { return c.jsonSize(i, item) })
	}
	if a, b, ok := p.branches(); ok {
		return c.jsonSize(i, a).or(c.jsonSize(i, b))
	}
	if p.Len() == 1 && (p.Key(0) == "Ref" || strings.HasPrefix(p.Key(0), "Fn::")) {
		return c.textSize(i, p)
	}
	return c.joinSize(len("{}"), p, func(k int, m propValue) span {
		return exactly(quotedSize(p.Key(k)) + len(":")).plus(c.jsonSize(i, m))
	})
}

// joinSize is the size of a list or object of these members. One that a condition may leave out counts from nothing.
func (c *counter) joinSize(frame int, p propValue, size func(int, propValue) span) span {
	total := exactly(frame)
	n := span{}
	for k := range p.Len() {
		m := propValue{p.At(k), p.scope}
		one := m.element()
		s := size(k, m)
		if one.least == 0 {
			s.least = 0
		}
		if one.most == 0 {
			s.most = 0
		}
		total, n = total.plus(s), n.plus(one)
	}
	return total.plus(span{max(n.least-1, 0), max(n.most-1, 0)})
}

// quotedSize is the size of a string as JSON.
func quotedSize(s string) int {
	n := len(s) + len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
			n++ // a backslash before a letter
		case c < ' ':
			n += len(`\u001f`) - 1
		}
	}
	return n
}

// textSize is the size of a string expression, quoted.
func (c *counter) textSize(i int32, p propValue) span {
	if s, ok := p.Scalar(); ok {
		return exactly(quotedSize(s))
	}
	out := span{}
	for k, t := range p.scope.Eval(p.Node) {
		n := exactly(len(`""`))
		for _, part := range t {
			if part.Hole != "" {
				n = n.plus(c.holeSize(i, part.Hole))
			} else {
				n = n.plus(exactly(quotedSize(part.Literal) - len(`""`)))
			}
		}
		if k == 0 {
			out = n
		}
		out = out.or(n)
	}
	return out
}

// Sizes of what AWS names itself.
const (
	generatedTail = 13  // "-" and the random letters that CloudFormation puts behind a name: 12, older 13
	longestName   = 255 // of any resource
	shortName     = 32  // to which the names of some types are cut: load balancers, target groups
	longestARN    = 400 // as good as any: names end at 255
)

// holeSize is the size of what a hole of an expression of stack i stands for.
func (c *counter) holeSize(i int32, hole string) span {
	id, attr, isAttr := strings.Cut(hole, ".")
	at, ok := c.resources[i][id]
	if !ok {
		return span{1, longestName}
	}
	name := c.nameSize(at)
	if !isAttr {
		if refIsARN[c.nodes[at].typ] {
			return c.arnSize(at, name)
		}
		return name
	}
	if strings.HasSuffix(attr, "Arn") || attr == "Arn" {
		return c.arnSize(at, name)
	}
	return span{1, longestName}
}

// refIsARN are types whose Ref is an ARN and not a name.
var refIsARN = map[string]bool{
	"AWS::IAM::ManagedPolicy": true, "AWS::SNS::Topic": true, "AWS::SecretsManager::Secret": true,
	"AWS::StepFunctions::StateMachine": true, "AWS::CertificateManager::Certificate": true,
	typeLoadBalancer: true, typeTargetGroup: true, typeListener: true, typeListenerRule: true,
}

// nameSize is the size of a resource's physical name: the given one, or what CloudFormation makes of the names of
// stack and resource.
func (c *counter) nameSize(i int32) span {
	n := &c.nodes[i]
	if n.name != "" {
		return exactly(len(n.name))
	}
	if traitsOf(n.typ).name == "" {
		return span{8, 64} // vpc-…, a key's UUID: AWS's own ids
	}
	made := len(c.stacks[n.stack].Name) + len("-") + len(n.id) + generatedTail
	return span{min(made, shortName), min(made+1, longestName)}
}

// arnSize is the size of the ARN of a resource whose name has that size.
func (c *counter) arnSize(i int32, name span) span {
	n := &c.nodes[i]
	e := c.envOf(i)
	partition, _ := partitionOf(e.region)
	for _, f := range arnForms {
		if f.typ != n.typ || f.prefix == "loadbalancer/net/" {
			continue
		}
		fixed := len("arn:") + len(partition) + len(":") + len(f.service) + len(":::") + len(f.prefix)
		account, region := len("111111111111"), len(e.region)
		switch {
		case f.service == "s3":
			account, region = 0, 0
		case f.service == "iam":
			region = 0
		}
		size := name.plus(exactly(fixed + account + region))
		switch n.typ {
		case typeLoadBalancer, typeTargetGroup:
			return size.plus(exactly(len("/0123456789abcdef")))
		case "AWS::SecretsManager::Secret":
			return size.plus(exactly(len("-AbCdEf")))
		}
		return size
	}
	if n.typ == "AWS::Events::Rule" {
		return name.plus(exactly(len("arn:") + len(partition) + len(":events:") + len(e.region) + len(":111111111111:rule/")))
	}
	return span{20, longestARN}
}
