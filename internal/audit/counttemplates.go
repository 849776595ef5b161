package audit

import (
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// countTemplates counts what one template may hold. A resource counts whether or not a condition lets it be made.
func (c *counter) countTemplates() {
	for i := range c.stacks {
		s := &c.stacks[i]
		add := func(limit string, n int, fix string) {
			c.usages = append(c.usages, usage{limit: limit, rule: &ruleTemplate, node: -1, stack: int32(i), env: s.env(), used: exactly(n), fix: fix})
		}
		t := &s.Template
		add("cfn.resources", len(t.Resources), "")
		add("cfn.parameters", len(t.Parameters), "")
		add("cfn.outputs", len(t.Outputs), "")
		add("cfn.mappings", t.Mappings.Len(), "")
		add("cfn.template-s3", s.Size, "")
		add("cfn.dynamic-refs", dynamicReferences(t), "read the values with typed parameters, or at run time")
	}
}

// dynamicReferences counts what CloudFormation resolves in a template.
func dynamicReferences(t *template.Template) int {
	const reference = "{{resolve:"
	n := 0
	for i := range t.Resources {
		template.Strings(t.Resources[i].Properties, func(s string) {
			if len(s) > len(reference) {
				n += strings.Count(s, reference)
			}
		})
	}
	return n
}
