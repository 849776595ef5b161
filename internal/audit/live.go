package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit/limitdata"
)

// Where the number of a limit comes from.
const (
	LimitDefault = "default" // AWS's published default
	LimitFleet   = "fleet"   // the fleet file
	LimitLive    = "live"    // the account itself
)

// Live is what accounts said of their own limits. A nil Live is that nobody asked them.
type Live struct{ Places []LivePlace }

// LivePlace is what one account said in one region.
type LivePlace struct {
	Account, Region string
	// Limits are by id of limitdata. A limit that is not there was not asked for: the default holds, and the
	// finding says so.
	Limits map[string]LiveLimit
	// Unread is what else was asked for and not answered, each with the reason.
	Unread []string
}

// LiveLimit is one limit of an account.
type LiveLimit struct {
	Max  float64 // in the unit of the catalogue
	Used *int    // how much of it the account has in use now; nil when that is not told
	// Unknown says why the account did not say the limit; Max and Used mean nothing then.
	Unknown string
}

// of is what the account says of a limit, or nil when it was not asked. Of an account's limit that holds over all
// regions any region may have said it.
func (l *Live) of(e env, d limitdata.Limit) *LiveLimit {
	if l == nil {
		return nil
	}
	var found *LiveLimit
	for i := range l.Places {
		p := &l.Places[i]
		if p.Account != e.account || p.Region != e.region && e.region != "" && d.Scope != "per-account" {
			continue
		}
		v, ok := p.Limits[d.ID]
		if ok && (found == nil || found.Unknown != "") {
			found = &v
		}
	}
	return found
}

// UnknownPlace is an account that could not be asked at all for the limits of these ids.
func UnknownPlace(e Environment, ids []string, why string) LivePlace {
	p := LivePlace{Account: e.Account, Region: e.Region, Limits: map[string]LiveLimit{}}
	for _, id := range ids {
		if l, ok := limitdata.Get(id); ok && l.Adjustable {
			p.Limits[id] = LiveLimit{Unknown: why}
		}
	}
	return p
}

// Environment is an account and region.
type Environment struct{ Account, Region string }

// Environments are the accounts and regions that stacks go to, as far as the templates say them, sorted.
func Environments(stacks []Stack) []Environment {
	var out []Environment
	for i := range stacks {
		if e := stacks[i].env(); e.account != unknownAccount && e.region != unknownRegion {
			out = append(out, Environment{e.account, e.region})
		}
	}
	slices.SortFunc(out, func(a, b Environment) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Region, b.Region))
	})
	return slices.Compact(out)
}

// LimitsUsed are the limits that stacks draw on, by account and region: ids of limitdata, sorted. Those of an account
// in all regions stand in each of its regions. It is what --live has to ask for.
func LimitsUsed(in Input, opt Options) map[Environment][]string {
	opt.Live = nil
	g := build(in, opt)
	c := newCounter(g, opt)
	c.count()
	used := map[env]map[string]bool{}
	note := func(e env, id string) {
		if used[e] == nil {
			used[e] = map[string]bool{}
		}
		used[e][id] = true
	}
	for i := range c.usages {
		if u := &c.usages[i]; u.used.most > 0 {
			note(u.env, u.limit)
		}
	}
	out := map[Environment][]string{}
	for _, e := range Environments(in.Stacks) {
		here := env{e.Account, e.Region}
		for id := range used[env{e.Account, ""}] {
			note(here, id)
		}
		for _, f := range c.types[typeFunction] {
			if c.envOf(f) == here {
				note(here, "lambda.concurrency")
				break
			}
		}
		for _, id := range []string{"kms.symmetric-rps", "apigw.rps", "ec2.vcpu-ondemand-standard", "ddb.account-rcu", "ddb.account-wcu"} {
			note(here, id) // the pools
		}
		out[e] = sortedKeys(used[here])
	}
	return out
}

// unknownLimits make a review item of each reason for which limits of an account are not known, with the limits that
// the stacks use: what was compared with a default must not look as if it had been compared with the account.
func (c *counter) unknownLimits() []finding {
	if c.opt.Live == nil {
		return nil
	}
	type why struct {
		env
		reason string
	}
	limits := map[why][]string{}
	var order []why
	used := map[env]map[string]bool{}
	for i := range c.usages {
		u := &c.usages[i]
		if u.used.most > 0 {
			if used[u.env] == nil {
				used[u.env] = map[string]bool{}
			}
			used[u.env][u.limit] = true
		}
	}
	for _, p := range c.opt.Live.Places {
		for _, id := range sortedKeys(p.Limits) {
			v := p.Limits[id]
			d, ok := limitdata.Get(id)
			if v.Unknown == "" || !ok || !used[env{p.Account, p.Region}][id] && !used[env{p.Account, ""}][id] {
				continue
			}
			k := why{env{p.Account, p.Region}, v.Unknown}
			if limits[k] == nil {
				order = append(order, k)
			}
			limits[k] = append(limits[k], lowerFirst(d.Name))
		}
	}
	var out []finding
	for _, p := range c.opt.Live.Places {
		for _, what := range p.Unread {
			out = append(out, finding{rule: &ruleLimitUnknown, level: Review, node: -1,
				message: fmt.Sprintf("%s did not say %s", env{p.Account, p.Region}, what)})
		}
	}
	for _, k := range order {
		out = append(out, finding{rule: &ruleLimitUnknown, level: Review, node: -1,
			message: fmt.Sprintf("%s of %s unknown (%s): %s", plural(len(limits[k]), "limit"), k.env, k.reason, strings.Join(limits[k], "; "))})
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
