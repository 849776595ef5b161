package audit

import (
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// texts follows the names and ARNs in one string expression.
func (b *builder) texts(i int, from int32, path []string, n template.Node) {
	if len(path) > 0 && path[len(path)-1] == "Description" {
		return // words for people
	}
	keys := b.keysOf(from, path)
	if s, ok := n.Str(); ok {
		b.text(i, from, path, keys, s)
		return
	}
	for _, t := range b.scopes[i].Eval(n) {
		if s, ok := t.Literal(); ok {
			b.text(i, from, path, keys, s)
			continue
		}
		if t.Cut() {
			b.review(reviewKey{&ruleUnread, b.stacks[i].File, b.nodes[from].id,
				"the text at " + strings.Join(path, ".") + " has more alternatives, length or depth than is evaluated: the rest of it was not seen"})
		}
		for _, part := range t {
			if part.Hole == "" {
				b.fragment(i, from, path, keys, part.Literal)
			}
		}
	}
}

// text follows one known string.
func (b *builder) text(i int, from int32, path, keys []string, s string) {
	if len(path) == 1 && b.nodes[from].kind == resourceNode && path[0] == traitsOf(b.nodes[from].typ).name {
		return // its own name
	}
	switch {
	case strings.HasPrefix(s, "arn:"):
		b.arn(i, from, path, s)
	case b.name(i, from, path, keys, s, false):
	default:
		if e, name, ok := parseQueueURL(s); ok {
			b.toNamed(from, path, e, "AWS::SQS::Queue", name, s, byName)
			return
		}
		if typ, ok := typeOfID(s); ok {
			b.refer(from, b.outside(typ, s, s), byID, path)
			return
		}
		if own, other := b.cellOf(from), b.cellOfName(s); apart(own, other) && !traitsOf(b.nodes[from].typ).observer {
			b.refer(from, b.outside("", s, s), byName, path)
			return
		}
		b.mentions(i, from, path, keys, s)
		b.fragment(i, from, path, keys, s)
	}
}

// dynamic is a dynamic reference of CloudFormation.
var dynamic = regexp.MustCompile(`\{\{resolve:(ssm|ssm-secure|secretsmanager):([^{}]+)\}\}`)

// fragment follows what stands inside a longer string: dynamic references, and in scripts and
// environments single words.
func (b *builder) fragment(i int, from int32, path, keys []string, s string) {
	b.endpoints(i, from, path, s)
	e := b.stacks[i].env()
	if strings.Contains(s, "{{resolve:") {
		for _, m := range dynamic.FindAllStringSubmatch(s, -1) {
			if m[1] != "secretsmanager" {
				b.refer(from, b.parameterStore(e, m[2]), byDynamic, path)
				continue
			}
			if strings.HasPrefix(m[2], "arn:") {
				b.arn(i, from, path, m[2])
				continue
			}
			name, _, _ := strings.Cut(m[2], ":")
			b.toNamed(from, path, e, "AWS::SecretsManager::Secret", name, name, byDynamic)
		}
	}
	if !slices.ContainsFunc(path, func(key string) bool { return wordy[key] }) {
		return
	}
	for _, w := range wordsOf(s) {
		keys := keys
		if w.key != "" {
			keys = append([]string{w.key}, keys...)
		}
		if strings.HasPrefix(w.text, "arn:") {
			b.arn(i, from, path, w.text)
			continue
		}
		if e, name, ok := parseQueueURL(w.text); ok {
			b.toNamed(from, path, e, "AWS::SQS::Queue", name, w.text, byName)
			continue
		}
		if b.name(i, from, path, keys, w.text, true) {
			continue
		}
		if len(endpointsOf(w.text)) > 0 {
			continue // followed above
		}
		if pieces := strings.FieldsFunc(w.text, func(r rune) bool { return r == '/' || r == ':' }); len(pieces) > 1 {
			for _, piece := range pieces {
				b.name(i, from, path, keys, piece, true)
			}
		}
	}
}

// name follows a string that equals a physical name in the same account and region. A word of a longer
// string must look like a name, which has a separator in it. Only where a key says the type is it taken
// for the resource: anything may be called as a table is.
func (b *builder) name(i int, from int32, path, keys []string, s string, word bool) bool {
	e := b.stacks[i].env()
	found := b.bareNames[e][s]
	if len(found) == 0 && e != (env{unknownAccount, unknownRegion}) {
		found = b.bareNames[env{unknownAccount, unknownRegion}][s]
	}
	if word && !strings.ContainsAny(s, "-_./:") {
		return false
	}
	hit := false
	for _, to := range found {
		if to == from {
			continue
		}
		if saysType(keys, b.nodes[to].typ) || b.nodes[to].typ == typeAlias { // nothing else's name begins with alias/
			hit = true
			b.refer(from, to, byName, path)
			continue
		}
		b.maybes = append(b.maybes, maybe{i, from, to, strings.Join(path, "."), s})
	}
	return hit
}

// toNamed refers to the resource of that type and name, read or not.
func (b *builder) toNamed(from int32, path []string, e env, typ, name, id string, h how) {
	if to, ok := b.find(e, typ, name); ok {
		b.refer(from, to, h, path)
		return
	}
	b.refer(from, b.outside(typ, id, name), h, path)
}

// arn follows an ARN: to the resource that was read, to one outside, or, when it is a pattern, to a
// review item for each shard that it lets in.
func (b *builder) arn(i int, from int32, path []string, s string) {
	a, ok := parseARN(s)
	if !ok || a.account == "aws" || a.service == "cloudformation" {
		return // managed policies and the like are AWS's own
	}
	if a.service == "apigateway" { // …:lambda:path/2015-03-31/functions/ARN/invocations calls what ARN names
		if _, inner, found := strings.Cut(a.resource, "/functions/arn:"); found {
			b.arn(i, from, path, strings.TrimSuffix("arn:"+inner, "/invocations"))
		}
		return
	}
	if a.service == "states" && a.region == "" {
		return // arn:aws:states:::sqs:sendMessage is what a workflow does, and no resource; what it does it to stands beside
	}
	typ, name, whole, ok := a.target()
	if !ok {
		if !strings.ContainsAny(s, "*?") {
			b.refer(from, b.outside("", s, ""), byARN, path)
		}
		return
	}
	e := env{a.account, a.region}
	if strings.ContainsAny(name, "*?") {
		b.pattern(i, from, path, e, typ, name)
		return
	}
	if typ == typeParameter {
		b.refer(from, b.parameterStore(e, name), byARN, path)
		return
	}
	if to, ok := b.find(e, typ, name); ok {
		b.refer(from, to, byARN, path)
		return
	}
	to := b.outside(typ, whole, name)
	b.refer(from, to, byARN, path)
	if lb, ok := a.loadBalancer(); ok && len(b.out[to]) == 0 {
		la, _ := parseARN(lb)
		_, lbName, _, _ := la.target()
		at, read := b.find(e, typeLoadBalancer, lbName)
		if !read {
			at = b.outside(typeLoadBalancer, lb, lbName)
		}
		b.out[to] = append(b.out[to], edge{to: at, how: byPart, at: "LoadBalancerArn"})
	}
}

// pattern notes a grant of a shard whose pattern covers what is not the shard's own.
func (b *builder) pattern(i int, from int32, path []string, e env, typ, name string) {
	own := b.nodes[from].shard
	if own < 0 || strings.Trim(name, "*") == "" {
		return
	}
	b.patterns = append(b.patterns, patternUse{stack: i, from: from, at: strings.Join(path, "."), env: e, typ: typ, name: name})
}

// patternUse is a grant by pattern, judged when all names are known.
type patternUse struct {
	stack int
	from  int32
	at    string
	env   env
	typ   string
	name  string
}

// judgePatterns makes a review item of each grant by pattern that covers another shard's resource. A
// pattern's cost is the number of names of its type, so the names are grouped by type once.
func (b *builder) judgePatterns() {
	if len(b.patterns) == 0 {
		return
	}
	type group struct {
		env env
		typ string
	}
	names := map[group][]int32{}
	for key, to := range b.byName {
		g := group{key.env, key.typ}
		names[g] = append(names[g], to)
	}
	for _, p := range b.patterns {
		k := nameKeyOf(p.env, p.typ, "")
		covered := 0
		example := int32(-1)
		for _, to := range names[group{k.env, k.typ}] {
			other := b.nodes[to].shard
			if other == b.nodes[p.from].shard || !matches(p.name, b.nodes[to].name) {
				continue
			}
			covered++
			if example < 0 || to < example {
				example = to
			}
		}
		if covered > 0 {
			b.review(reviewKey{&rulePattern, b.stacks[p.stack].File, b.nodes[p.from].id,
				p.at + " covers by the pattern " + quote(p.name) + " what is not this shard's own, for one " + b.describe(example)})
		}
	}
}

// matches matches * and ? as IAM does, in time linear in both for each star.
func matches(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p, i = p+1, i+1
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
