package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"

	"cellwall.dev/cellwall/internal/audit"
)

// acknowledgements are what was acknowledged above all stacks, at a Stage or at what holds it. The assembly does not
// tell of these. Those at stacks and below stand in its metadata, where the audit reads them.
func acknowledgements(app constructs.IConstruct) []audit.Acknowledgement {
	return collect(nil, app, *awscdk.Validations_ACKNOWLEDGED_RULES_METADATA_KEY())
}

func collect(all []audit.Acknowledgement, c constructs.IConstruct, key string) []audit.Acknowledgement {
	for _, m := range *c.Node().Metadata() {
		rules, ok := m.Data.(map[string]any)
		if !ok || *m.Type != key {
			continue
		}
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			all = append(all, audit.Acknowledgement{Path: *c.Node().Path(), Rule: rule, Reason: fmt.Sprint(rules[rule])})
		}
	}
	for _, child := range *c.Node().Children() {
		if !*awscdk.Stack_IsStack(child) {
			all = collect(all, child, key)
		}
	}
	return all
}
