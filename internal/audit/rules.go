package audit

import (
	"slices"
	"strings"
)

// The rules of each family, in the order of the documentation.
var (
	dataRules = []rule{ruleLoadBalancer, ruleTable, ruleQueue, ruleBucket, ruleStream, ruleCache, ruleDatabase, ruleFunction,
		ruleFileSystem, ruleAPI, ruleTopic, ruleCompute, ruleWorkflow, ruleEgress}
	identityRules = []rule{ruleOther, ruleRole, ruleKey, ruleValue, ruleSecurity, ruleLogs, ruleBuild, ruleOrder, ruleNetwork, ruleVersion}
	limitRules    = []rule{ruleTargetGroups, ruleConcurrency, ruleBalancer, ruleGroupRules, rulePolicySize, ruleTemplate, rulePlace, rulePart}
	unreadRules   = []rule{ruleNoShards, ruleUnresolved, ruleMaybe, rulePattern, ruleUnread, ruleMapped, ruleUnseen, ruleUnplaced, ruleLimitUnknown}
)

// rules are all rules, for documentation, reports and tests.
var rules = slices.Concat(dataRules, identityRules, crossRules, poolRules, limitRules, unreadRules, waiverRules)

// Rule is a rule as it is documented.
type Rule struct {
	ID     string `json:"id"`
	Family string `json:"family"` // what the first two letters of the id stand for
	Level  Level  `json:"level"`  // by default; a finding says its own
	Title  string `json:"title"`  // what is found, in a few words
	Help   string `json:"help"`   // why it matters and when it is not so bad: plain sentences
	// Example is what the rule finds. One that begins with "-- " is a directory of templates: below a line
	// "-- NAME … --" stands the text of one file, or of several that are the same; what is below was/ is deployed. Others are prose.
	Example string `json:"example"`
	Fix     string `json:"fix"`
}

// families are what the first two letters of a rule's id stand for.
var families = map[string]string{
	"SD": "shared data path",
	"SI": "shared identity or configuration",
	"SC": "coupling of cells",
	"PL": "account pool",
	"QT": "limit",
	"UN": "not judged",
	"WV": "waiver",
}

// manual is what a rule's documentation says beyond its table entry.
type manual struct{ title, help, example string }

// manuals are the documentation of all rules by id, one table for each family.
var manuals = []map[string]manual{dataManual, identityManual, cellManual, crossManual, ownerManual, poolManual, limitManual, countManual, unreadManual, waiverManual}

// Rules are all rules with their documentation, in the order of docs/audit.md.
func Rules() []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = Rule{ID: r.id, Family: families[r.id[:2]], Level: r.level, Title: r.noun, Fix: r.fix}
		for _, table := range manuals {
			if m, ok := table[r.id]; ok {
				out[i].Title, out[i].Help, out[i].Example = m.title, m.help, strings.TrimSpace(m.example)
			}
		}
	}
	return out
}
