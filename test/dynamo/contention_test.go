package dynamo

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// contention refuses writes as DynamoDB does, and the emulator, which does one at a time, does not: what
// meets a transaction on an item is refused (another transaction says so for each item), and so is a
// transaction while one with its token goes on.
type contention struct {
	mu     sync.Mutex
	items  map[string]bool // of transactions that go on
	tokens map[string]bool // of these
}

type written struct {
	TableName string
	Key       map[string]map[string]string
}

func (w *written) item() string { return fmt.Sprint(w.TableName, w.Key) } // maps are printed in order

// begin takes the items of a transaction until done is called, unless the request is refused.
func (c *contention) begin(target string, body []byte) (done func(), refusal string) {
	var in struct {
		written
		ClientRequestToken string
		TransactItems      []struct{ Update, Delete, ConditionCheck *written }
	}
	_, operation, _ := strings.Cut(target, ".")
	if err := json.Unmarshal(body, &in); err != nil || operation != "UpdateItem" && operation != "TransactWriteItems" {
		return func() {}, ""
	}
	var items []string
	for _, t := range in.TransactItems {
		for _, w := range []*written{t.Update, t.Delete, t.ConditionCheck} {
			if w != nil {
				items = append(items, w.item())
			}
		}
	}
	single := operation == "UpdateItem"
	if single {
		items = append(items, in.item())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items == nil {
		c.items, c.tokens = map[string]bool{}, map[string]bool{}
	}
	if c.tokens[in.ClientRequestToken] {
		return nil, exception("TransactionInProgressException", "")
	}
	reasons := make([]string, len(items))
	met := false
	for i, item := range items {
		reasons[i] = `{"Code":"None"}`
		if c.items[item] {
			reasons[i], met = `{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"}`, true
		}
	}
	switch {
	case met && single:
		return nil, exception("TransactionConflictException", "")
	case met:
		return nil, exception("TransactionCanceledException", `,"CancellationReasons":[`+strings.Join(reasons, ",")+`]`)
	case single:
		return func() {}, ""
	}
	for _, item := range items {
		c.items[item] = true
	}
	c.tokens[in.ClientRequestToken] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, item := range items {
			delete(c.items, item)
		}
		delete(c.tokens, in.ClientRequestToken)
	}, ""
}

func exception(name, more string) string {
	return `{"__type":"com.amazonaws.dynamodb.v20120810#` + name + `","Message":"refused by the line"` + more + `}`
}
