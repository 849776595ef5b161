package dynamodir

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
)

const (
	pkPrefix = "TENANT#"
	entrySK  = "ENTRY"
)

type item = map[string]types.AttributeValue

func key(tenant string) item { return item{"pk": str(pkPrefix + tenant), "sk": str(entrySK)} }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

// encode writes an entry as an item. Attributes that would be empty are left out.
func encode(e directory.Entry) item {
	it := key(e.Tenant)
	it["cell"], it["state"], it["operation"] = str(e.Cell), str(string(e.State)), str(e.Operation)
	it["epoch"], it["topology"] = number(e.Epoch), number(e.Topology)
	it["updated"] = str(e.Updated.UTC().Format(time.RFC3339Nano))
	if e.Size != "" {
		it["size"] = str(e.Size)
	}
	if len(e.Pins) > 0 {
		pins := make([]types.AttributeValue, len(e.Pins))
		for i, pin := range e.Pins {
			pins[i] = str(pin)
		}
		it["pins"] = &types.AttributeValueMemberL{Value: pins}
	}
	return it
}

// decode reads an item. One that is not as encode writes it is an error and never a partial entry: a
// tenant whose pins were lost would be sent to shards that do not have its state.
func decode(it item) (directory.Entry, error) {
	d := decoder{item: it}
	e := directory.Entry{
		Tenant: strings.TrimPrefix(d.str("pk"), pkPrefix), Cell: d.str("cell"), State: directory.State(d.str("state")),
		Epoch: d.number("epoch"), Topology: d.number("topology"), Operation: d.str("operation"),
	}
	if _, ok := it["size"]; ok {
		e.Size = d.str("size")
	}
	e.Pins = d.list("pins")
	updated, err := time.Parse(time.RFC3339Nano, d.str("updated"))
	if d.err == nil && err != nil {
		d.err = fmt.Errorf("attribute updated: %w", err)
	}
	e.Updated = updated
	if d.err != nil {
		return directory.Entry{}, fmt.Errorf("directory item of tenant %q: %w", e.Tenant, d.err)
	}
	return e, nil
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

func (d *decoder) number(name string) uint64 {
	text, ok := d.item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name, "a number")
		return 0
	}
	n, err := strconv.ParseUint(text.Value, 10, 64)
	if err != nil {
		d.fail(name, "a whole number")
	}
	return n
}

// list reads an optional list of strings.
func (d *decoder) list(name string) []string {
	value, ok := d.item[name]
	if !ok {
		return nil
	}
	list, ok := value.(*types.AttributeValueMemberL)
	if !ok {
		d.fail(name, "a list")
		return nil
	}
	out := make([]string, len(list.Value))
	for i, v := range list.Value {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			d.fail(name, "a list of strings")
			return nil
		}
		out[i] = s.Value
	}
	return out
}
