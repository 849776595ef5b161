package dynamodir

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Attributes of an item beside its keys and index values.
const (
	versionAttr   = "v"
	operationAttr = "op"
	bodyAttr      = "body"
	counterPrefix = "n:"
)

// indexes are the table's, with the attribute that has an item's value in each.
var indexes = [2]struct{ name, attr string }{
	{names.FirstIndex, names.FirstIndexKey}, {names.SecondIndex, names.SecondIndexKey},
}

type item = map[string]types.AttributeValue

func itemKey(k directory.Key) item {
	return item{names.PartitionKey: str(k.Part), names.SortKey: str(k.Sort)}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// maxIndexValue is the longest value of an index's partition key, in bytes (DynamoDB quotas).
const maxIndexValue = 2048

// indexValue is what an item has in an index that lists its record of this family under the value.
func indexValue(family, value string) types.AttributeValue { return str(family + "#" + value) }

func number[N uint64 | int64](n N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// decode reads an item. One that is not as a write leaves it is an error and never a partial record: a
// tenant whose pins were lost would be sent to shards that do not have its state.
func decode(it item) (directory.Record, error) {
	d := decoder{item: it}
	r := directory.Record{Key: d.key(), Version: d.version(), Operation: d.str(operationAttr), Body: []byte(d.str(bodyAttr))}
	for i, index := range indexes {
		if _, ok := it[index.attr]; ok {
			r.Index[i] = d.indexValue(index.attr, r.Family())
		}
	}
	for name := range it {
		if counter, ok := strings.CutPrefix(name, counterPrefix); ok {
			if r.Counters == nil {
				r.Counters = map[string]int64{}
			}
			r.Counters[counter] = d.counter(name)
		}
	}
	if d.err != nil {
		return directory.Record{}, fmt.Errorf("the directory's item %v is damaged: %w", r.Key, d.err)
	}
	return r, nil
}

// decoder reads attributes until the first that is not as it should be.
type decoder struct {
	item item
	err  error
}

func (d *decoder) fail(name, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("attribute %s is missing or not %s", name, want)
	}
}

func (d *decoder) str(name string) string {
	s, ok := d.item[name].(*types.AttributeValueMemberS)
	if !ok {
		d.fail(name, "a string")
		return ""
	}
	return s.Value
}

func (d *decoder) indexValue(name, family string) string {
	value, ok := strings.CutPrefix(d.str(name), family+"#")
	if !ok || value == "" {
		d.fail(name, "a value after "+family+"#")
	}
	return value
}

func (d *decoder) key() directory.Key {
	return directory.Key{Part: d.str(names.PartitionKey), Sort: d.str(names.SortKey)}
}

func (d *decoder) digits(name string) string {
	n, ok := d.item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name, "a number")
		return ""
	}
	return n.Value
}

func (d *decoder) version() uint64 {
	n, err := strconv.ParseUint(d.digits(versionAttr), 10, 64)
	if err != nil || n == 0 {
		d.fail(versionAttr, "a whole number from 1")
	}
	return n
}

func (d *decoder) counter(name string) int64 {
	n, err := strconv.ParseInt(d.digits(name), 10, 64)
	if err != nil {
		d.fail(name, "a whole number")
	}
	return n
}

// expression collects what a request says in DynamoDB's language. Names and values go in by reference,
// so that no name of ours is a reserved word and no value is taken for syntax.
type expression struct {
	names      map[string]string // # and a number → attribute
	values     item              // : and a number → value
	conditions []string
	set, add   []string
	remove     []string
}

func (e *expression) name(attribute string) string {
	ref := "#" + strconv.Itoa(len(e.names))
	if e.names == nil {
		e.names = map[string]string{}
	}
	e.names[ref] = attribute
	return ref
}

func (e *expression) value(v types.AttributeValue) string {
	ref := ":" + strconv.Itoa(len(e.values))
	if e.values == nil {
		e.values = item{}
	}
	e.values[ref] = v
	return ref
}

// between says that an attribute lies within two bounds, or on one of them.
func (e *expression) between(attribute, low, high string) string {
	return e.name(attribute) + " BETWEEN " + e.value(str(low)) + " AND " + e.value(str(high))
}

// express says an operation in DynamoDB's language. A pure condition has no update.
func express(o directory.Op, operation string) *expression {
	e := &expression{}
	switch o.Expect {
	case 0:
		e.conditions = append(e.conditions, "attribute_not_exists("+e.name(names.PartitionKey)+")")
	case directory.AnyVersion:
		e.conditions = append(e.conditions, "attribute_exists("+e.name(names.PartitionKey)+")")
	default:
		e.conditions = append(e.conditions, e.name(versionAttr)+" = "+e.value(number(o.Expect)))
	}
	if o.Put {
		e.put(o, operation)
	}
	for _, d := range o.Deltas {
		e.move(d)
	}
	return e
}

func (e *expression) put(o directory.Op, operation string) {
	set := func(attribute string, v types.AttributeValue) {
		e.set = append(e.set, e.name(attribute)+" = "+e.value(v))
	}
	if o.Expect == directory.AnyVersion {
		e.add = append(e.add, e.name(versionAttr)+" "+e.value(number[uint64](1)))
	} else {
		set(versionAttr, number(o.Expect+1))
	}
	set(operationAttr, str(operation))
	set(bodyAttr, str(string(o.Body)))
	for i, index := range indexes {
		if o.Index[i] != "" {
			set(index.attr, indexValue(o.Family(), o.Index[i]))
		} else if o.Expect != 0 {
			e.remove = append(e.remove, e.name(index.attr))
		}
	}
}

// move moves a counter, which may be missing and is 0 then, if the result lies within the bounds. Sums
// are never computed: they could go past the ends of int64, where DynamoDB's numbers do not end.
func (e *expression) move(d directory.Delta) {
	bound := func(limit int64) *big.Int { return new(big.Int).Sub(big.NewInt(limit), big.NewInt(d.By)) }
	low, high := bound(d.Min), bound(d.Max)
	counter := e.name(counterPrefix + d.Counter)
	value := func(n *big.Int) string { return e.value(&types.AttributeValueMemberN{Value: n.String()}) }
	condition := counter + " BETWEEN " + value(low) + " AND " + value(high)
	if low.Sign() <= 0 && high.Sign() >= 0 {
		condition = "(attribute_not_exists(" + counter + ") OR " + condition + ")"
	}
	e.conditions = append(e.conditions, condition)
	e.add = append(e.add, counter+" "+e.value(number(d.By)))
}

func (e *expression) condition() *string {
	all := strings.Join(e.conditions, " AND ")
	return &all
}

// update is nil for a pure condition.
func (e *expression) update() *string {
	var clauses []string
	for _, c := range []struct {
		verb  string
		terms []string
	}{{"SET", e.set}, {"ADD", e.add}, {"REMOVE", e.remove}} {
		if len(c.terms) > 0 {
			clauses = append(clauses, c.verb+" "+strings.Join(c.terms, ", "))
		}
	}
	if len(clauses) == 0 {
		return nil
	}
	all := strings.Join(clauses, " ")
	return &all
}

// int32Of is n as the API wants a limit.
func int32Of(n int) *int32 {
	i := int32(min(n, math.MaxInt32))
	return &i
}
