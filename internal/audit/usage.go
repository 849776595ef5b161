package audit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit/limitdata"
)

// warnPercent is the share of a limit from which on it is worth a warning.
const warnPercent = 80

// span is a number that only a deployment may know: it lies between least and most, both included.
type span struct{ least, most int }

func exactly(n int) span        { return span{n, n} }
func (s span) plus(t span) span { return span{s.least + t.least, s.most + t.most} }
func (s span) or(t span) span   { return span{min(s.least, t.least), max(s.most, t.most)} }

// known says whether the number is known before a deployment.
func (s span) known() bool { return s.least == s.most }

func (s span) String() string {
	if s.known() {
		return fmt.Sprint(s.least)
	}
	return fmt.Sprintf("%d to %d", s.least, s.most)
}

// usage is how much of one limit is used in one place.
type usage struct {
	limit string // id in limitdata
	rule  *rule
	node  int32  // what the limit is of, or -1
	stack int32  // what the limit is of, where that is a template, or -1
	env   env    // whose account's limit holds
	whole bool   // whether the limit is the account's own, and not that of a resource in it
	what  string // which part of the resource, where it has several: "ingress over IPv4"
	used  span
	by    map[string]int // the least of it by cell, or by stack outside of cells
	on    map[int32]bool // shards that count in it
	fix   string         // instead of the rule's
	// setting marks a number that somebody chose: its maximum is as good as any other.
	setting bool
}

// counter finds what the counting rules ask for.
type counter struct {
	*graph
	opt    Options
	types  map[string][]int32 // nodes of resources by type, macros' types as what they become
	usages []usage
	// registers are who registers targets, by target group; see registrants.
	registers map[int32][]int32
	// wide are the limits of which an account has one over all regions, as far as inPlace was asked.
	wide map[string]bool
	// enough is what far asked for last: rules go limit by limit, and stack by stack.
	enough enough
	// paces are rates that settings say, by service and function; see pacesOf.
	paces map[string]map[int32]int
}

// enough is the number of a limit, in hundredths, from which on it is worth a warning.
type enough struct {
	limit string
	env   env
	known bool
	most  float64
}

func newCounter(g *graph, opt Options) *counter {
	c := &counter{graph: g, opt: opt, types: map[string][]int32{}, wide: map[string]bool{}}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.kind != resourceNode {
			continue
		}
		typ := cmp.Or(transformed[n.typ], n.typ)
		c.types[typ] = append(c.types[typ], int32(i))
	}
	return c
}

// envOf is the account and region of a node. What was not read says it in its ARN, if at all.
func (c *counter) envOf(i int32) env {
	if n := &c.nodes[i]; n.stack >= 0 {
		return c.stacks[n.stack].env()
	} else if a, ok := parseARN(n.id); ok && a.account != "" {
		return env{a.account, a.region}
	}
	return env{unknownAccount, unknownRegion}
}

// label is who a node counts for in a sum: its cell, or its stack.
func (c *counter) part(i int32) string {
	n := &c.nodes[i]
	if n.shard >= 0 && c.shards[n.shard].Cell != "" {
		return c.shards[n.shard].Cell
	}
	if n.stack < 0 {
		return "outside"
	}
	return cmp.Or(c.places[n.stack].Cell, c.stacks[n.stack].Name)
}

// add counts n more, of the resource from.
func (u *usage) add(c *counter, from int32, n span) {
	u.used = u.used.plus(n)
	if u.by == nil {
		u.by, u.on = map[string]int{}, map[int32]bool{}
	}
	u.by[c.part(from)] += n.least
	if s := c.nodes[from].shard; s >= 0 {
		u.on[s] = true
	}
}

// one is the count of a resource: none or one when a condition decides.
func (c *counter) one(i int32) span {
	if n := &c.nodes[i]; n.res != nil && n.res.Condition != "" {
		return span{0, 1}
	}
	return exactly(1)
}

// prop is a property of a resource, null when it is not there or is AWS::NoValue.
func (c *counter) prop(i int32, keys ...string) propValue {
	n := &c.nodes[i]
	if n.res == nil {
		return propValue{}
	}
	return propValue{n.res.Properties.Below(keys...), &c.scopes[n.stack]}
}

// bound is a limit as it holds in an account.
type bound struct {
	limitdata.Limit
	max     float64
	from    string // LimitDefault, LimitFleet or LimitLive
	unknown string // why it is not known; max is the default then
	used    *int   // by what the account has now, when that is known
}

// bound is the limit of that id in an account and region, and whether there is a number at all.
func (c *counter) bound(id string, e env) (bound, bool) {
	l, ok := limitdata.Get(id)
	if !ok || l.Default == nil {
		return bound{}, false
	}
	b := bound{Limit: l, max: l.In(e.region), from: LimitDefault}
	live := c.opt.Live.of(e, l)
	switch {
	case live == nil:
	case live.Unknown != "":
		// what AWS raises for nobody is known without asking
		if l.Adjustable {
			b.unknown = live.Unknown
		}
	default:
		b.max, b.from, b.used = live.Max, LimitLive, live.Used
	}
	return b, true
}

// judge makes the finding of one usage; ok is false when there is room enough.
func (c *counter) judge(u *usage) (f finding, ok bool) {
	b, ok := c.bound(u.limit, u.env)
	if !ok {
		return f, false
	}
	used := u.used
	if u.whole && b.used != nil {
		// some of what the account has may be what is deployed again, and nothing says which
		used = span{max(used.least, *b.used), used.most + *b.used}
	}
	over := float64(used.least) > b.max
	near := float64(used.least)*100 >= b.max*warnPercent && !u.setting
	maybe := float64(used.most) > b.max
	if !over && !near && !maybe || used.most == 0 {
		return f, false
	}
	f = finding{rule: u.rule, node: u.node, fix: u.fix, on: slices.Sorted(maps.Keys(u.on))}
	if u.stack >= 0 {
		f.file = c.stacks[u.stack].File
	}
	f.limit = &Limit{Name: c.limitName(u, &b), Used: used.least, Max: int(math.Floor(b.max)), Hard: !b.Adjustable, Quota: b.Code,
		ID: b.ID, Source: b.from, Certainty: string(b.Certainty), Error: b.Error}
	if !used.known() {
		f.limit.Most = used.most
	}
	f.message = c.usageMessage(u, &b, used)
	switch {
	case over && (!b.Adjustable || b.Max > 0 && float64(used.least) > b.Max):
		f.level = Fatal
	case over:
		f.level = Error
	case near:
		f.level = Warning
	default:
		f.level, f.reason = Review, "which number it is, a deployment decides"
	}
	c.doubt(&f, u, &b)
	return f, true
}

// doubt lowers the level of what is not known well enough to fail on.
func (c *counter) doubt(f *finding, u *usage, b *bound) {
	switch {
	case b.unknown != "":
		f.rule, f.level = &ruleLimitUnknown, Review
		f.reason = fmt.Sprintf("the account's limit is unknown (%s); compared with AWS's default, which may not be the account's", b.unknown)
	case f.level > Review && b.Certainty != limitdata.High && b.from == LimitDefault:
		f.level = Review
		f.reason = fmt.Sprintf("the limit is known with %s certainty only: %s", b.Certainty, cmp.Or(b.Notes, b.Source))
	case f.level > Warning && u.whole && (u.env.account == unknownAccount || u.env.region == unknownRegion):
		f.level = Warning
		f.reason = "no template says its account and region: counted as if all went to one"
	}
}

// limitName names the limit together with where it holds, so that it is another one in each place.
func (c *counter) limitName(u *usage, b *bound) string {
	name := lowerFirst(b.Name)
	if u.what != "" {
		name += ", " + u.what
	}
	if u.whole {
		name += ", " + u.env.String()
	}
	return name
}

func (c *counter) usageMessage(u *usage, b *bound, used span) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s of %s %s: %s", used, number(b.max), unitWord(b.Unit), c.limitName(u, b))
	switch {
	case u.node >= 0:
		fmt.Fprintf(&s, ", of %s", quote(c.graph.label(u.node)))
	case u.stack >= 0:
		fmt.Fprintf(&s, ", of stack %s", quote(c.stacks[u.stack].Name))
	}
	if len(u.by) > 1 {
		fmt.Fprintf(&s, " (%s)", sum(u.by))
	}
	if u.whole && b.used != nil {
		fmt.Fprintf(&s, "; the account has %d now", *b.used)
	}
	if float64(used.least) > b.max && b.Error != "" {
		fmt.Fprintf(&s, "; a deployment fails with %q", b.Error)
	}
	return s.String()
}

// String is "account 111111111111, eu-west-1".
func (e env) String() string {
	account, region := "account "+e.account, e.region
	if e.account == unknownAccount {
		account = "an account that no template says"
	}
	if region == unknownRegion || region == "" {
		return account
	}
	return account + ", " + region
}

// sumParts is how many parts of a sum are written out.
const sumParts = 8

// sum is "eu-1: 3 + eu-2: 3", largest first.
func sum(by map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a, b))
	})
	var parts []string
	rest := 0
	for i, k := range keys {
		if i < sumParts {
			parts = append(parts, fmt.Sprintf("%s: %d", k, by[k]))
		} else {
			rest += by[k]
		}
	}
	if more := len(keys) - sumParts; more > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d more", rest, more))
	}
	return strings.Join(parts, " + ")
}

func number(f float64) string {
	if f == math.Trunc(f) {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprint(f)
}

// unitWord is the unit as it follows a number; what is counted is named by the limit itself.
func unitWord(unit string) string {
	if unit == "count" {
		return "at most"
	}
	return unit + " at most"
}

// lowerFirst makes a name fit into a sentence: "Targets per ALB", but not "VPCs per Region" or "GetParameter rate".
func lowerFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word != "" && word[1:] == strings.ToLower(word[1:]) {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// count fills usages by every counting rule.
func (c *counter) count() {
	c.countTemplates()
	c.countPlaces()
	c.countParts()
	c.countLists()
	c.countBalancers()
	c.countGroupRules()
	c.countPolicies()
}

// far says whether so much is too far from the limit for anybody to hear of it. Counting rules ask before they note
// where it is used, which for most resources would be for nothing. A limit that the account itself was asked for is
// never far: whether it is known is told by what draws on it.
func (c *counter) far(limit string, e env, n span) bool {
	if c.opt.Live != nil {
		return false
	}
	if m := &c.enough; m.limit != limit || m.env != e {
		b, ok := c.bound(limit, e)
		*m = enough{limit, e, ok, b.max * warnPercent}
	}
	return !c.enough.known || float64(n.most)*100 < c.enough.most
}

// limitFindings judge every counting rule.
func (c *counter) limitFindings() []finding {
	c.count()
	var out []finding
	for i := range c.usages {
		if f, ok := c.judge(&c.usages[i]); ok {
			out = append(out, f)
		}
	}
	out = append(out, c.poolFindings()...)
	return append(out, c.unknownLimits()...)
}
