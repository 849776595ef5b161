package template

import (
	"iter"
	"strings"
)

// SubPart is one piece of the string of an Fn::Sub: literal text, or a variable when Var is not "".
type SubPart struct {
	Literal string
	Var     string // "Name" or "Name.Attribute"
}

// ParseSub splits the string of an Fn::Sub. "${!x}" is the literal "${x}"; a "${" that is never closed
// is literal text, as CloudFormation has it.
func ParseSub(s string) []SubPart {
	var parts []SubPart
	for p := range subParts(s) {
		if n := len(parts); n > 0 && parts[n-1].Var == "" && p.Var == "" {
			parts[n-1].Literal += p.Literal
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// subParts are the pieces of ParseSub, of which neighbours may both be literal.
func subParts(s string) iter.Seq[SubPart] {
	return func(yield func(SubPart) bool) {
		for s != "" {
			i := strings.Index(s, "${")
			end := -1
			if i >= 0 {
				end = strings.IndexByte(s[i:], '}')
			}
			if end < 0 {
				yield(SubPart{Literal: s})
				return
			}
			if i > 0 && !yield(SubPart{Literal: s[:i]}) {
				return
			}
			name, whole := s[i+2:i+end], s[i:i+end+1]
			s = s[i+end+1:]
			p := SubPart{Var: strings.TrimSpace(name)}
			switch {
			case strings.HasPrefix(name, "!"):
				p = SubPart{Literal: "${" + name[1:] + "}"}
			case p.Var == "":
				p = SubPart{Literal: whole}
			}
			if !yield(p) {
				return
			}
		}
	}
}
