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
