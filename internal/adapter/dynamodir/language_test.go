package dynamodir

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// satisfied reads a condition: terms joined by AND, of which one in parentheses is two joined by OR.
func satisfied(t *testing.T, condition string, refs map[string]string, values item, it item) bool {
	p := terms{t: t, words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(condition)), names: refs, values: values, item: it}
	held := p.or()
	if len(p.words) > 0 {
		t.Errorf("condition %q goes on with %q", condition, p.words)
	}
	return held
}

// terms reads a condition from left to right, one word after the other.
type terms struct {
	t      *testing.T
	words  []string
	names  map[string]string
	values item
	item   item
}

func (p *terms) next() string {
	if len(p.words) == 0 {
		p.t.Error("a condition ends too early")
		return ""
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

func (p *terms) take(word string) bool {
	if len(p.words) > 0 && p.words[0] == word {
		p.words = p.words[1:]
		return true
	}
	return false
}

func (p *terms) or() bool {
	held := p.and()
	for p.take("OR") {
		held = p.and() || held
	}
	return held
}

func (p *terms) and() bool {
	held := p.term()
	for p.take("AND") {
		held = p.term() && held
	}
	return held
}

func (p *terms) term() bool {
	if p.take("(") {
		held := p.or()
		p.next()
		return held
	}
	word := p.next()
	if word == "attribute_exists" || word == "attribute_not_exists" {
		p.next()
		_, there := p.item[p.attribute(p.next())]
		p.next()
		return there == (word == "attribute_exists")
	}
	have, there := p.item[p.attribute(word)]
	switch verb := p.next(); verb {
	case "=":
		want := p.value()
		return there && compare(p.t, have, want) == 0
	case "BETWEEN":
		low := p.value()
		p.next()
		high := p.value()
		if compare(p.t, low, high) > 0 {
			p.t.Error("BETWEEN with bounds of nothing, which DynamoDB refuses")
		}
		return there && compare(p.t, low, have) <= 0 && compare(p.t, have, high) <= 0
	default:
		p.t.Errorf("a condition with %q", verb)
		return false
	}
}

func (p *terms) attribute(ref string) string {
	name, ok := p.names[ref]
	if !ok {
		p.t.Errorf("%q is no reference to a name", ref)
	}
	return name
}

func (p *terms) value() types.AttributeValue {
	ref := p.next()
	v, ok := p.values[ref]
	if !ok {
		p.t.Errorf("%q is no reference to a value", ref)
	}
	return v
}

func compare(t *testing.T, a, b types.AttributeValue) int {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return cmp.Compare(a.Value, b.(*types.AttributeValueMemberS).Value)
	case *types.AttributeValueMemberN:
		return integer(t, a).Cmp(integer(t, b))
	}
	t.Errorf("a comparison of %T", a)
	return 0
}

func integer(t *testing.T, v types.AttributeValue) *big.Int {
	n, ok := new(big.Int).SetString(v.(*types.AttributeValueMemberN).Value, 10)
	if !ok || len(n.String()) > 38 {
		t.Errorf("%v is no number of DynamoDB's", v)
	}
	return n
}

// update carries an update expression out: SET, ADD and REMOVE, each with terms separated by commas.
func update(t *testing.T, expression string, refs map[string]string, values item, it item) {
	verb := ""
	p := terms{t: t, words: strings.Fields(strings.ReplaceAll(expression, ",", " ")), names: refs, values: values}
	for len(p.words) > 0 {
		if w := p.words[0]; w == "SET" || w == "ADD" || w == "REMOVE" {
			verb = p.next()
		}
		name := p.attribute(p.next())
		if name == names.PartitionKey || name == names.SortKey {
			t.Errorf("an update of %s", name)
		}
		switch verb {
		case "SET":
			if eq := p.next(); eq != "=" {
				t.Errorf("SET with %q", eq)
			}
			it[name] = p.value()
		case "ADD":
			sum := integer(t, p.value())
			if old, ok := it[name]; ok {
				sum.Add(sum, integer(t, old))
			}
			it[name] = &types.AttributeValueMemberN{Value: fmt.Sprint(sum)}
		case "REMOVE":
			delete(it, name)
		default:
			t.Errorf("update %q", expression)
		}
	}
}
