package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"

	"cellwall.dev/cellwall/internal/audit/assembly"
	"cellwall.dev/cellwall/internal/template"
)

// acted are the sections of a template that CloudFormation acts on.
var acted = []string{"Conditions", "Mappings", "Outputs", "Parameters", "Resources", "Rules", "Transform"}

// Canonical is the hash of what CloudFormation acts on in a template, JSON or YAML: of its sections as JSON with their
// keys in order and numbers in one form. Characters beyond ASCII are all one, since CloudFormation does not give them back; a
// stack's tags are compared apart from it, as they are. Description and the template's own Metadata are not part of it, and a section
// that is empty is as good as one that is not there.
func Canonical(text []byte) (string, error) {
	root, err := assembly.Decode(text)
	if err != nil {
		return "", fmt.Errorf("the template cannot be read: %w", err)
	}
	if root.Kind() != template.Map {
		return "", fmt.Errorf("the template is %s", root.Kind())
	}
	return canonical(root), nil
}

func canonical(root template.Node) string {
	b := []byte("cellwall/template/v1\n")
	for _, section := range acted {
		if n, ok := root.Get(section); ok && n.Kind() != template.Null && !(n.Kind() == template.Map && n.Len() == 0) {
			b = append(append(b, section...), '\n')
			b = append(appendCanonical(b, n), '\n')
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func appendCanonical(b []byte, n template.Node) []byte {
	switch n.Kind() {
	case template.Null:
		return append(b, "null"...)
	case template.String:
		s, _ := n.Str()
		return appendQuoted(b, s)
	case template.Number:
		s, _ := n.Scalar()
		return append(b, number(s)...)
	case template.List:
		b = append(b, '[')
		for i := range n.Len() {
			b = append(appendCanonical(b, n.At(i)), ',')
		}
		return append(b, ']')
	case template.Map:
		order := make([]int, n.Len())
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return strings.Compare(n.Key(i), n.Key(j)) })
		b = append(b, '{')
		for _, i := range order {
			b = append(appendQuoted(b, n.Key(i)), ':')
			b = append(appendCanonical(b, n.At(i)), ',')
		}
		return append(b, '}')
	}
	s, _ := n.Scalar()
	return append(b, s...)
}

// appendQuoted writes a string as CloudFormation gives it back: with a question mark for each character beyond ASCII
// (aws-cdk 2.1148.1, mangleLikeCloudFormation).
func appendQuoted(b []byte, s string) []byte {
	s = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, s)
	q, _ := json.Marshal(s) // a string cannot fail
	return append(b, q...)
}

// number is one form of a number: 1, 1.0 and 1e0 are equal. What is too large for that, or no number of JSON, stays as
// it is written.
func number(s string) string {
	if len(s) > 64 || strings.ContainsAny(s, "xXoObB_/") {
		return s
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(exponent) > 4 {
		return s
	}
	if r, ok := new(big.Rat).SetString(s); ok {
		return r.RatString()
	}
	return s
}
