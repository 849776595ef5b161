package template

import "strings"

// SubPart is one piece of the string of an Fn::Sub: literal text, or a variable when Var is not "".
type SubPart struct {
	Literal string
	Var     string // "Name" or "Name.Attribute"
}

// ParseSub splits the string of an Fn::Sub. "${!x}" is the literal "${x}"; a "${" that is never closed
// is literal text, as CloudFormation has it.
func ParseSub(s string) []SubPart {
	if s == "" {
		return nil
	}
	parts := make([]SubPart, 0, 2*strings.Count(s, "${")+1)
	literal := func(t string) {
		if t == "" {
			return
		}
		if n := len(parts); n > 0 && parts[n-1].Var == "" {
			parts[n-1].Literal += t
			return
		}
		parts = append(parts, SubPart{Literal: t})
	}
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			literal(s)
			return parts
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			literal(s)
			return parts
		}
		literal(s[:i])
		name := s[i+2 : i+end]
		s = s[i+end+1:]
		switch {
		case strings.HasPrefix(name, "!"):
			literal("${" + name[1:] + "}")
		case strings.TrimSpace(name) == "":
			literal("${" + name + "}")
		default:
			parts = append(parts, SubPart{Var: strings.TrimSpace(name)})
		}
	}
}
