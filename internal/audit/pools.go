package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// ratePool is a rate of requests of which an account has one in each region, whoever asks.
type ratePool struct {
	rule  *rule
	limit string
	// actions are the prefixes of the IAM actions that draw on it, in lower case; a statement that allows one draws.
	actions []string
	// pace is how a setting begins that says how fast somebody draws: SSM_MAX_TPS.
	pace string
}

var ratePools = []ratePool{
	{&rulePoolKMS, "kms.symmetric-rps", []string{"kms:decrypt", "kms:encrypt", "kms:generatedatakey", "kms:reencrypt"}, "KMS"},
	{&rulePoolSSM, "ssm.get-tps", []string{"ssm:getparameter"}, "SSM"},
	{&rulePoolSTS, "sts.rps", []string{"sts:assumerole"}, "STS"},
}

// draw is what one account's pool is drawn on by.
type draw struct {
	cells map[place]bool
	paced map[string]int // requests per second that are said, by cell or stack
	on    map[int32]bool
}

// pool collects draws by account and region.
type pool map[env]*draw

func (p pool) of(e env) *draw {
	if p[e] == nil {
		p[e] = &draw{map[place]bool{}, map[string]int{}, map[int32]bool{}}
	}
	return p[e]
}

// by notes that a resource draws. Only cells are to be isolated from each other; what is no cell's draws, too, but
// cells have no business of their own with it.
func (d *draw) by(c *counter, i int32) {
	n := &c.nodes[i]
	at := place{}
	if n.stack >= 0 {
		at = c.places[n.stack]
	}
	if n.shard >= 0 {
		at = c.shards[n.shard]
		d.on[n.shard] = true
	}
	if at.Cell != "" {
		d.cells[place{Service: at.Service, Cell: at.Cell}] = true
	}
}

func (d *draw) names() string {
	var names []string
	for p := range d.cells {
		names = append(names, p.Cell)
	}
	slices.Sort(names)
	if more := len(names) - sumParts; more > 0 {
		names = append(names[:sumParts], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// poolFindings say which pools of an account several cells draw on together.
func (c *counter) poolFindings() []finding {
	out := c.concurrencyPool()
	drawn := c.drawn()
	for i := range ratePools {
		out = append(out, c.rateFindings(&ratePools[i], drawn[i])...)
	}
	out = append(out, c.apiPool()...)
	out = append(out, c.countedPools()...)
	return out
}

// drawn finds who may ask each service: who is allowed to, and who says how fast it does.
func (c *counter) drawn() []pool {
	pools := make([]pool, len(ratePools))
	for k := range pools {
		pools[k] = pool{}
	}
	c.statements(func(i int32, action string) {
		action = strings.ToLower(action)
		for k := range ratePools {
			if slices.ContainsFunc(ratePools[k].actions, func(a string) bool { return draws(action, a) }) {
				pools[k].of(c.envOf(i)).by(c, i)
			}
		}
	})
	for k := range ratePools {
		for i, rate := range c.pacesOf(ratePools[k].pace) {
			d := pools[k].of(c.envOf(i))
			d.by(c, i)
			d.paced[c.part(i)] += rate
		}
	}
	return pools
}

// draws says whether an action of a statement, which may end in a star, covers one that begins with want; both in lower
// case.
func draws(action, want string) bool {
	if stem, star := strings.CutSuffix(action, "*"); star {
		return stem != "" && strings.Contains(stem, ":") && (strings.HasPrefix(want, stem) || strings.HasPrefix(stem, want))
	}
	return strings.HasPrefix(action, want)
}

// statements calls f with each action that a role's policy allows.
func (c *counter) statements(f func(i int32, action string)) {
	doc := func(i int32, p propValue) {
		for _, s := range p.get("Statement").items() {
			if s.get("Effect").is("Deny", false) {
				continue
			}
			for _, a := range s.get("Action").items() {
				if action, ok := a.text(); ok {
					f(i, action)
				}
			}
		}
	}
	for _, typ := range []string{"AWS::IAM::Policy", "AWS::IAM::RolePolicy", "AWS::IAM::ManagedPolicy"} {
		for _, i := range c.types[typ] {
			doc(i, c.prop(i, "PolicyDocument"))
		}
	}
	for _, i := range c.types["AWS::IAM::Role"] {
		for _, p := range c.prop(i, "Policies").items() {
			doc(i, p.get("PolicyDocument"))
		}
	}
}

var paceKey = regexp.MustCompile(`(?i)^([A-Z]+)_(?:[A-Z0-9]+_)*(?:TPS|RPS|QPS|RATE|PER_SECOND|PER_SEC)$`)

// pacesOf are the rates that settings of functions say for a service: SSM_MAX_TPS=10.
func (c *counter) pacesOf(service string) map[int32]int {
	if c.paces == nil {
		c.paces = map[string]map[int32]int{}
		for _, i := range c.types[typeFunction] {
			vars := c.prop(i, "Environment", "Variables")
			for k := range vars.Len() {
				if vars.Kind() != template.Map {
					break
				}
				m := paceKey.FindStringSubmatch(vars.Key(k))
				if m == nil {
					continue
				}
				if n, ok := (propValue{vars.At(k), vars.scope}).number(); ok {
					s := strings.ToUpper(m[1])
					if c.paces[s] == nil {
						c.paces[s] = map[int32]int{}
					}
					c.paces[s][i] += n.most
				}
			}
		}
	}
	return c.paces[service]
}

func (c *counter) rateFindings(r *ratePool, p pool) []finding {
	var out []finding
	for _, e := range slices.SortedFunc(maps.Keys(p), compareEnv) {
		d := p[e]
		b, ok := c.bound(r.limit, e)
		if !ok {
			continue
		}
		total := 0
		for _, n := range d.paced {
			total += n
		}
		full := len(d.paced) > 1 && float64(total)*100 >= b.max*warnPercent
		if len(d.cells) < 2 && !full {
			continue
		}
		f := c.poolFinding(r.rule, &b, e, d)
		if full {
			f.message = fmt.Sprintf("%d requests/s (%s) are said to be drawn from %s requests/s of %s: %s", total, sum(d.paced), number(b.max), e, lowerFirst(b.Name))
			f.limit.Used = total
		} else {
			f.message = fmt.Sprintf("%d cells (%s) draw on the same %s requests/s of %s, %s for each if all draw alike: %s",
				len(d.cells), d.names(), number(b.max), e, number(float64(int(b.max)/len(d.cells))), lowerFirst(b.Name))
		}
		f.message += c.whence(&b)
		out = append(out, f)
	}
	return out
}

// whence says that a number is only AWS's default, and what AWS says of it.
func (c *counter) whence(b *bound) string {
	switch {
	case b.unknown != "":
		return " (AWS's default: the account's is unknown)"
	case b.from != LimitDefault:
		return ""
	case b.Notes != "":
		return " (AWS's default; " + b.Notes + ")"
	}
	return " (AWS's default)"
}

func (c *counter) poolFinding(r *rule, b *bound, e env, d *draw) finding {
	f := finding{rule: r, level: r.level, node: -1, on: slices.Sorted(maps.Keys(d.on)),
		limit: &Limit{Name: lowerFirst(b.Name) + ", " + e.String(), Max: int(b.max), Hard: !b.Adjustable, Quota: b.Code,
			ID: b.ID, Source: b.from, Certainty: string(b.Certainty), Error: b.Error}}
	// without account and region its cells may be of several accounts, and a limit that is not known is not overdrawn
	if e.account != unknownAccount && e.region != unknownRegion && b.unknown == "" {
		f.cells = d.cells
	}
	return f
}

// apiPool says which cells have APIs that one account's request rate bounds.
func (c *counter) apiPool() []finding {
	p := pool{}
	for _, typ := range []string{"AWS::ApiGateway::RestApi", "AWS::ApiGatewayV2::Api"} {
		for _, i := range c.types[typ] {
			p.of(c.envOf(i)).by(c, i)
		}
	}
	for _, i := range c.types["AWS::ApiGatewayV2::Stage"] {
		if n, ok := c.prop(i, "DefaultRouteSettings", "ThrottlingRateLimit").number(); ok {
			p.of(c.envOf(i)).paced[c.part(i)] += n.most
		}
	}
	for _, i := range c.types["AWS::ApiGateway::Stage"] {
		for _, m := range c.prop(i, "MethodSettings").items() {
			if n, ok := m.get("ThrottlingRateLimit").number(); ok && m.get("ResourcePath").is("/*", false) {
				p.of(c.envOf(i)).paced[c.part(i)] += n.most
			}
		}
	}
	return c.rateFindings(&ratePool{rule: &rulePoolAPI, limit: "apigw.rps"}, p)
}

// concurrencyPool is what functions without a reservation share: what the reservations of all leave.
func (c *counter) concurrencyPool() []finding {
	type sums struct {
		draw
		without  map[string]int // functions without a reservation, by cell or stack
		stacks   map[int32]bool // that hold them
		reserved int
		reserves map[int32]bool // stacks that reserve
		n        int
	}
	at := map[env]*sums{}
	for _, i := range c.types[typeFunction] {
		e := c.envOf(i)
		s := at[e]
		if s == nil {
			s = &sums{draw: draw{map[place]bool{}, nil, map[int32]bool{}}, without: map[string]int{}, stacks: map[int32]bool{}, reserves: map[int32]bool{}}
			at[e] = s
		}
		if p := c.prop(i, "ReservedConcurrentExecutions"); p.Kind() != template.Null {
			n, _ := p.number()
			s.reserved += n.most
			s.reserves[c.nodes[i].stack] = s.reserves[c.nodes[i].stack] || n.most > 0
			continue
		}
		s.by(c, i)
		s.without[c.part(i)]++
		s.stacks[c.nodes[i].stack] = true
		s.n++
	}
	var out []finding
	for _, e := range slices.SortedFunc(maps.Keys(at), compareEnv) {
		s := at[e]
		b := c.concurrencyBound(e)
		left := int(b.max) - s.reserved
		starved := s.reserved*100 >= int(b.max)*warnPercent && foreign(s.reserves, s.stacks)
		if s.n == 0 || len(s.cells) < 2 && !starved {
			continue
		}
		f := c.poolFinding(&rulePoolLambda, &b, e, &s.draw)
		f.limit.Used = s.reserved
		f.message = fmt.Sprintf("%s without a reservation (%s) share %d concurrent executions of %s: %s − %d reserved",
			plural(s.n, "function"), sum(s.without), left, e, number(b.max), s.reserved) + c.whence(&b)
		f.fix = reservationAdvice(int(b.max), s.reserved, s.n)
		out = append(out, f)
	}
	return out
}

// foreign says whether what one stack reserves is taken from another one's functions.
func foreign(reserves, stacks map[int32]bool) bool {
	for r, some := range reserves {
		for s := range stacks {
			if some && r != s {
				return true
			}
		}
	}
	return false
}

// reservationAdvice shows what reservations leave: each one takes from all functions that have none.
func reservationAdvice(limit, reserved, functions int) string {
	room := limit - min(UnreservedConcurrency, limit) - reserved
	each := max(room, 0) / functions
	if each == 0 {
		return fmt.Sprintf("do not reserve more: %d − %d reserved leave %d, of which Lambda keeps %d free. Lower reservations, ask for more concurrency (Service Quotas L-B99A9384), or place a cell in another account",
			limit, reserved, limit-reserved, min(UnreservedConcurrency, limit))
	}
	return fmt.Sprintf("reserve at most %d for each of the %d functions, which leaves %d for functions that have no reservation, of other teams too; or place a cell in another account",
		each, functions, limit-reserved-each*functions)
}
