//go:build linux

package rie

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// aws is as much of AWS as a cell's data path touches: a table, a secret, queues, and functions that are
// environments of their own. It answers what it does not know with an error.
type aws struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	items     map[string]json.RawMessage // by table, pk and sk
	secret    string
	queued    map[string][]string     // messages by queue
	functions map[string]*environment // by name with alias
	bad       map[string]string       // functions that fail, and how
	invoked   []string                // functions, in the order of their invocations
}

func newAWS(t *testing.T) *aws {
	t.Helper()
	a := &aws{t: t, items: map[string]json.RawMessage{}, queued: map[string][]string{}, functions: map[string]*environment{}, bad: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// environment is what a function needs to reach this AWS.
func (a *aws) environment(more map[string]string) map[string]string {
	env := map[string]string{
		"AWS_ENDPOINT_URL": a.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	}
	for name, value := range more {
		env[name] = value
	}
	return env
}

func (a *aws) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	if function, ok := strings.CutPrefix(r.URL.Path, "/2015-03-31/functions/"); ok {
		a.invoke(w, r, strings.TrimSuffix(function, "/invocations"), body)
		return
	}
	if function, ok := strings.CutPrefix(r.URL.Path, "/2021-11-15/functions/"); ok {
		a.invokeStreaming(w, r, strings.TrimSuffix(function, "/response-streaming-invocations"), body)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var in struct {
		TableName, SecretId, QueueName, QueueUrl, MessageBody string
		Key, Item                                             map[string]json.RawMessage
		TransactItems                                         []transactItem
	}
	if err := json.Unmarshal(body, &in); err != nil {
		a.t.Errorf("%s: %v", r.Header.Get("X-Amz-Target"), err)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch target := r.Header.Get("X-Amz-Target"); target {
	case "DynamoDB_20120810.GetItem":
		item, ok := a.items[itemKey(in.TableName, in.Key)]
		if !ok {
			io.WriteString(w, `{}`)
			return
		}
		fmt.Fprintf(w, `{"Item":%s}`, item)
	case "DynamoDB_20120810.TransactWriteItems":
		a.transact(w, in.TransactItems)
	case "secretsmanager.GetSecretValue":
		text, _ := json.Marshal(a.secret)
		fmt.Fprintf(w, `{"Name":%q,"SecretString":%s}`, in.SecretId, text)
	case "AmazonSQS.GetQueueUrl":
		fmt.Fprintf(w, `{"QueueUrl":"%s/111111111111/%s"}`, a.URL, in.QueueName)
	case "AmazonSQS.SendMessage":
		queue := in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:]
		a.queued[queue] = append(a.queued[queue], in.MessageBody)
		io.WriteString(w, `{"MessageId":"m1"}`)
	default:
		a.t.Errorf("unexpected call %s %s", target, r.URL)
		w.WriteHeader(http.StatusNotImplemented)
	}
}

// transactItem is a condition on a holding, or a put.
type transactItem struct {
	ConditionCheck *struct {
		TableName, ConditionExpression string
		Key                            map[string]json.RawMessage
		ExpressionAttributeValues      map[string]struct{ N string }
	}
	Put *struct {
		TableName, ConditionExpression string
		Item                           map[string]json.RawMessage
	}
}

// transact does the puts of a transaction whose first item is the condition that the holding's epoch is
// not above the request's.
func (a *aws) transact(w http.ResponseWriter, items []transactItem) {
	if len(items) < 2 || items[0].ConditionCheck == nil {
		a.t.Errorf("a write without the condition: %+v", items)
		w.WriteHeader(http.StatusNotImplemented)
		return
	}
	check := items[0].ConditionCheck
	var holding struct {
		Epoch struct {
			N uint64 `json:",string"`
		} `json:"epoch"`
	}
	limit, err := strconv.ParseUint(check.ExpressionAttributeValues[":epoch"].N, 10, 64)
	if err != nil || check.ConditionExpression != "attribute_exists(pk) AND #epoch <= :epoch" {
		a.t.Errorf("condition %+v, %v", check, err)
	}
	item, held := a.items[itemKey(check.TableName, check.Key)]
	if held {
		if err := json.Unmarshal(item, &holding); err != nil {
			a.t.Error(err)
		}
	}
	if !held || holding.Epoch.N > limit {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"ConditionalCheckFailed"}]}`)
		return
	}
	for i, put := range items[1:] {
		if put.Put == nil || put.Put.ConditionExpression != "" && !strings.HasPrefix(put.Put.ConditionExpression, "attribute_not_exists(pk)") {
			a.t.Errorf("no put, or one on a condition of which this knows nothing: %+v", put)
			continue
		}
		if _, there := a.items[itemKey(put.Put.TableName, put.Put.Item)]; there && put.Put.ConditionExpression != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"None"}%s,{"Code":"ConditionalCheckFailed"}]}`,
				strings.Repeat(`,{"Code":"None"}`, i))
			return
		}
	}
	for _, put := range items[1:] {
		if put.Put == nil {
			continue
		}
		item, err := json.Marshal(put.Put.Item)
		if err != nil {
			a.t.Error(err)
		}
		a.items[itemKey(put.Put.TableName, put.Put.Item)] = item
	}
	io.WriteString(w, `{}`)
}

// hold has a shard hold a tenant at an epoch; 0 has it let go.
func (a *aws) hold(shard, tenant string, epoch uint64) {
	table, key := cell.Shard(shard).Table(), directory.HoldingKey(tenant)
	a.put(table, key.Part, key.Sort, fmt.Sprintf(`,%q:{"N":"%d"}`, directory.HoldingEpoch, epoch))
	if epoch == 0 {
		a.remove(table, key.Part, key.Sort)
	}
}

func (a *aws) remove(table, pk, sk string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.items, fmt.Sprintf(`%s {"S":%q} {"S":%q}`, table, pk, sk))
}

// enter writes a tenant's entry into the directory.
func (a *aws) enter(e directory.Entry) {
	e.Operation = "op"
	a.record("TENANT#"+e.Tenant, "ENTRY", e.Epoch, e)
}

// publish writes a topology into the directory.
func (a *aws) publish(t directory.Topology) {
	a.record("CELL#"+t.Cell, fmt.Sprintf("TOPOLOGY#%020d", t.Version), 1, t)
}

func (a *aws) record(pk, sk string, version uint64, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		a.t.Fatal(err)
	}
	a.put("orders-directory", pk, sk, fmt.Sprintf(`,"v":{"N":"%d"},"op":{"S":"op"},"body":{"S":%q}`, version, body))
}

// itemKey names an item; the keys are {"S":"…"} each.
func itemKey(table string, key map[string]json.RawMessage) string {
	return table + " " + string(key["pk"]) + " " + string(key["sk"])
}

// has says whether there is an item.
func (a *aws) has(table, pk, sk string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.items[fmt.Sprintf(`%s {"S":%q} {"S":%q}`, table, pk, sk)]
	return ok
}

// takeMessage takes the one message that waits in a queue of the cell.
func (a *aws) takeMessage(t *testing.T) (queue, message string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for queue, messages := range a.queued {
		if len(a.queued) == 1 && len(messages) == 1 {
			delete(a.queued, queue)
			return queue, messages[0]
		}
	}
	t.Fatalf("want one message, found %v", a.queued)
	return "", ""
}

// put writes an item as DynamoDB's JSON.
func (a *aws) put(table, pk, sk, attributes string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	item := fmt.Sprintf(`{"pk":{"S":%q},"sk":{"S":%q}%s}`, pk, sk, attributes)
	a.items[fmt.Sprintf(`%s {"S":%q} {"S":%q}`, table, pk, sk)] = json.RawMessage(item)
}

// invoke is Lambda's Invoke. It translates the emulator's manners into Lambda's: a function that failed
// is a 200 with a header.
func (a *aws) invoke(w http.ResponseWriter, r *http.Request, escaped string, event []byte) {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.invoked = append(a.invoked, name)
	function, how := a.functions[name], a.bad[name]
	a.mu.Unlock()
	switch {
	case function == nil:
		refuse(w, http.StatusNotFound, "ResourceNotFoundException")
		return
	case how == throttles:
		refuse(w, http.StatusTooManyRequests, "TooManyRequestsException")
		return
	case how == errs:
		io.WriteString(w, `{"statusCode":500,"headers":{},"body":"no"}`)
		return
	}
	status, answer, err := function.invoke(r.Context(), event)
	switch how { // it has done what it was asked for
	case hung:
		<-r.Context().Done()
		return
	case dies:
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		io.WriteString(w, `{"errorType":"Runtime.ExitError","errorMessage":"RequestId: J1 Error: Runtime exited with error: signal: killed"}`)
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "ServiceException")
		return
	}
	var report struct {
		ErrorType string `json:"errorType"`
	}
	if status != http.StatusOK || json.Unmarshal(answer, &report) == nil && report.ErrorType != "" {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
	}
	w.Write(answer)
}

func refuse(w http.ResponseWriter, status int, kind string) {
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	io.WriteString(w, `{"Message":"no"}`)
}

// How a slice fails.
const (
	throttles = "throttle" // it has no concurrency left
	errs      = "errors"   // its service answers 500, and does nothing
	hung      = "hang"     // it does what it was asked for, and does not say so
	dies      = "kill"     // the same, and its process is killed
)

// spoil has a shard's slice fail, or with "" makes it whole.
func (a *aws) spoil(shard, how string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bad[cell.Shard(shard).WorkerAlias()] = how
}

// throttle takes a shard's concurrency away, or gives it back.
func (a *aws) throttle(shard string, throttled bool) {
	how := ""
	if throttled {
		how = throttles
	}
	a.spoil(shard, how)
}

// takeInvoked returns which shards were invoked since it was last called.
func (a *aws) takeInvoked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	invoked := a.invoked
	a.invoked = nil
	return invoked
}

// cell names what the functions are told about.
var cell = names.ForFleet("orders").Cell("eu-1")
