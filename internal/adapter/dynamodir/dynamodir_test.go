package dynamodir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
)

// The whole contract is run without the race detector.
func init() { directorytest.Brief = directorytest.UnderRace }

func TestContract(t *testing.T) {
	directorytest.Home(t, func(t *testing.T) directory.Home {
		f := newFake(t)
		// What is no record of ours is none of a listing's business.
		for _, sk := range []string{"CHANGE#1", "ENTRZ", "ENTRY!", "LOG$"} {
			k := directory.Key{Part: "TENANT#zz", Sort: sk}
			f.items[k] = itemKey(k)
		}
		return f.open()
	})
}

func TestRolloutJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) directory.Home { return newFake(t).open() })
}

func TestReplicaContract(t *testing.T) {
	directorytest.Records(t, func(t *testing.T) directory.Home {
		f := newFake(t)
		return NewReplica(f.open(), f.open())
	})
}

// exported compares the SDK's types by what they say.
var exported = cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{})

// The format of items is what tables that are deployed hold.
func TestItem(t *testing.T) {
	f := newFake(t)
	put := directory.Put(directory.Key{Part: "TENANT#acme", Sort: "ENTRY"}, 0, []byte(`{"a":1}`), "CELL#eu-1", "")
	put.Deltas = []directory.Delta{{Counter: "load", By: -3, Min: -5, Max: 5}}
	write(t, f.open(), "op-1", put)
	want := item{
		"pk": str("TENANT#acme"), "sk": str("ENTRY"), "v": number[uint64](1), "op": str("op-1"), "body": str(`{"a":1}`),
		"i1": str("ENTRY#CELL#eu-1"), "n:load": number[int64](-3),
	}
	if diff := cmp.Diff(want, f.items[put.Key], exported); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

func TestDamagedItemsAreNoRecords(t *testing.T) {
	k := entryKey("p")
	for name, value := range map[string]types.AttributeValue{
		"v": number[uint64](0), "op": nil, "body": number[uint64](1), "i1": number[uint64](1), "i2": str("x"), "n:load": str("1"), "n:x": &types.AttributeValueMemberN{Value: "1.5"},
	} {
		f := newFake(t)
		put := directory.Put(k, 0, []byte(`1`), "x")
		put.Deltas = []directory.Delta{{Counter: "load", By: 1, Max: 9}}
		write(t, f.open(), "op", put)
		if f.items[k][name] = value; value == nil {
			delete(f.items[k], name)
		}
		for what, try := range map[string]func(*Table) error{
			"read":  func(h *Table) error { _, err := h.Read(t.Context(), directory.Strong, k); return err },
			"reads": func(h *Table) error { _, err := h.Read(t.Context(), directory.Strong, k, entryKey("q")); return err },
			"list": func(h *Table) error {
				_, err := h.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, 1)
				return err
			},
			"write": func(h *Table) error {
				return h.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(k, 0, []byte(`1`))}})
			},
			"transaction": func(h *Table) error {
				return h.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Require(k, 0)}})
			},
		} {
			if err := try(f.open()); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with a damaged %s: %v", what, name, err)
			}
		}
	}
}

func TestReadMany(t *testing.T) {
	f := newFake(t)
	home := f.open()
	var keys []directory.Key
	for i := range 230 {
		k := entryKey(fmt.Sprint("t", i))
		keys = append(keys, k, k) // each twice
		if i%2 == 0 {
			write(t, home, "op", directory.Put(k, 0, fmt.Append(nil, i)))
		}
	}
	f.calls = nil
	records, err := home.Read(t.Context(), directory.Relaxed, keys...)
	if err != nil || len(records) != len(keys) {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, r := range records {
		if r.Key != keys[i] || (r.Version == 1) != (i/2%2 == 0) {
			t.Errorf("record %d is %v with version %d", i, r.Key, r.Version)
		}
	}
	records[0].Body[0] = 'X'
	if records[1].Body[0] == 'X' {
		t.Error("one key's two records share memory")
	}
	if len(f.calls) != 7 || slices.Contains(f.calls, "GetItem") { // 100 and 100 by 40, 30 at once
		t.Errorf("requests: %v", f.calls)
	}
}

// DynamoDB has no room for any of many reads: it is asked again after a while, and not for ever.
func TestReadManyUnprocessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.gets = 0
		read := func(ctx context.Context) error {
			f.calls = nil
			_, err := f.open().Read(ctx, directory.Strong, entryKey("p"), entryKey("q"))
			return err
		}
		begun := time.Now()
		if err := read(t.Context()); !errors.Is(err, directory.ErrBusy) || len(f.calls) != rounds || time.Since(begun) == 0 {
			t.Errorf("%v after %d requests in %v", err, len(f.calls), time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unread: %v", err)
		}
	})
}

// DynamoDB is asked for what the caller asks for: relaxed reads cost half.
func TestConsistency(t *testing.T) {
	for _, c := range []directory.Consistency{directory.Strong, directory.Relaxed} {
		f := newFake(t)
		f.gets = 1 // the rest is asked for anew
		for _, keys := range [][]directory.Key{{entryKey("p")}, {entryKey("p"), entryKey("q")}} {
			if _, err := f.open().Read(t.Context(), c, keys...); err != nil {
				t.Fatal(err)
			}
		}
		if want := c == directory.Strong; !slices.Equal(f.strong, []bool{want, want, want}) {
			t.Errorf("consistency %d: asked for consistent reads: %t", c, f.strong)
		}
	}
}

// A condition alone is judged, and is no put.
func TestConditionAlone(t *testing.T) {
	f := newFake(t)
	home := f.open()
	write(t, home, "op-1", directory.Put(entryKey("p"), 0, nil))
	f.calls = nil
	write(t, home, "op-2", directory.Require(entryKey("p"), 1))
	err := home.Write(t.Context(), directory.Batch{Operation: "op-3", Ops: []directory.Op{directory.Require(entryKey("p"), 2)}})
	var conflict *directory.Conflict
	if !errors.As(err, &conflict) || !slices.Equal(f.calls, []string{"TransactWriteItems", "TransactWriteItems"}) {
		t.Errorf("%v, requests %v", err, f.calls)
	}
}

// A router's role may get single items and nothing else. A lookup is one request, and so is a change.
func TestRequests(t *testing.T) {
	f := newFake(t)
	d := directorytest.Fill(t, f.open())
	c := directory.Change{Operation: "op-1", By: "ann", At: time.Unix(1, 0)}
	before, err := d.Create(t.Context(), directory.Entry{Tenant: "acme", Cell: "eu-1", State: directory.Active, Topology: 1}, c)
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string, do func() error, want ...string) {
		t.Helper()
		f.calls = nil
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if !slices.Equal(f.calls, want) {
			t.Errorf("%s: requests %v, want %v", what, f.calls, want)
		}
	}
	router, err := directory.Open(t.Context(), f.open())
	if err != nil {
		t.Fatal(err)
	}
	count("open", func() error { _, err := directory.Open(t.Context(), f.open()); return err }, "GetItem")
	count("lookup", func() error { _, err := router.Get(t.Context(), "acme"); return err }, "GetItem")
	c.Operation = "op-2"
	count("change", func() error { _, err := d.Replace(t.Context(), before, before, c); return err }, "TransactWriteItems")
	count("repeated change", func() error { _, err := d.Replace(t.Context(), before, before, c); return err }, "TransactWriteItems")
	count("access", func() error { return d.NoteAccess(t.Context(), "acme", "tenant show", c) }, "UpdateItem")
	count("history", func() error { _, err := d.History(t.Context(), "acme", 0, 1); return err }, "Query")
	count("cell's tenants", func() error { _, err := d.ListCell(t.Context(), "eu-1", "", 1); return err }, "Query")
}

var (
	errLost = &smithy.DeserializationError{Err: errors.New("the connection was closed")}
	errSlow = &types.ProvisionedThroughputExceededException{}
	errFar  = &types.TransactionConflictException{}
)

func cancelled(codes ...string) error {
	var reasons []types.CancellationReason
	for _, c := range codes {
		reasons = append(reasons, types.CancellationReason{Code: aws.String(c)})
	}
	return &types.TransactionCanceledException{CancellationReasons: reasons}
}

// script gives the faults of the requests in turn, and none afterwards.
func script(f *fake, faults ...fault) {
	f.calls = nil
	f.fault = func(_ string, try int) fault {
		if try <= len(faults) {
			return faults[try-1]
		}
		return fault{}
	}
}

func TestFaults(t *testing.T) {
	one := []directory.Op{directory.Put(entryKey("p"), 0, []byte(`1`))}
	two := append(slices.Clone(one), directory.Put(entryKey("q"), 0, []byte(`1`)))
	busyErr, lostErr := directory.ErrBusy, errLost
	for name, c := range map[string]struct {
		ops    []directory.Op
		faults []fault
		tries  int
		want   error // nil: written
	}{
		"throttled once":                    {one, []fault{{before: errSlow}}, 2, nil},
		"throttled always":                  {one, []fault{{before: errSlow}, {before: errSlow}, {before: errSlow}}, 3, busyErr},
		"met a transaction":                 {one, []fault{{before: errFar}}, 2, nil},
		"cancelled by another":              {two, []fault{{before: cancelled("None", "TransactionConflict")}}, 2, nil},
		"cancelled always":                  {two, slices.Repeat([]fault{{before: cancelled("TransactionConflict", "None")}}, 3), 3, busyErr},
		"condition and conflict":            {two, []fault{{before: cancelled("ConditionalCheckFailed", "TransactionConflict")}}, 2, nil},
		"answer lost":                       {one, []fault{{after: errLost}}, 2, nil},
		"answer of a transaction lost":      {two, []fault{{after: errLost}}, 2, nil},
		"request lost":                      {one, []fault{{before: errLost}}, 2, nil},
		"answer lost, then throttled":       {one, append([]fault{{after: errLost}}, slices.Repeat([]fault{{before: errSlow}}, 6)...), 8, nil},
		"lost, then contended":              {two, append([]fault{{after: errLost}}, slices.Repeat([]fault{{before: cancelled("TransactionConflict", "None")}}, 6)...), 8, nil},
		"lost now and then":                 {two, slices.Repeat([]fault{{before: errLost}, {before: errLost}, {before: errSlow}}, 3), 10, nil},
		"answer lost always":                {two, []fault{{after: errLost}, {after: errLost}, {after: errLost}}, 3, lostErr},
		"still in progress":                 {two, []fault{{before: &types.TransactionInProgressException{}}}, 2, nil},
		"in progress always":                {two, slices.Repeat([]fault{{before: &types.TransactionInProgressException{}}}, 3), 3, &types.TransactionInProgressException{}},
		"not allowed":                       {one, []fault{{before: &smithy.GenericAPIError{Code: "AccessDeniedException"}}}, 1, &smithy.GenericAPIError{Code: "AccessDeniedException"}},
		"cancelled for a reason of its own": {two, []fault{{before: cancelled("None", "ValidationError")}}, 1, cancelled("None", "ValidationError")},
		"cancelled for no reason":           {two, []fault{{before: cancelled("None", "None")}}, 1, cancelled("None", "None")},
		"reasons of another batch":          {two, []fault{{before: cancelled("ConditionalCheckFailed")}}, 1, cancelled("ConditionalCheckFailed")},
	} {
		synctest.Test(t, func(t *testing.T) { // the waits
			f := newFake(t)
			script(f, c.faults...)
			err := f.open().Write(t.Context(), directory.Batch{Operation: "op", Ops: c.ops})
			if c.want == nil && err != nil || c.want != nil && (err == nil || !strings.Contains(err.Error(), c.want.Error())) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if c.want != busyErr && errors.Is(err, directory.ErrBusy) {
				t.Errorf("%s: called busy, as if nothing had been written: %v", name, err)
			}
			if len(f.calls) != c.tries {
				t.Errorf("%s: %d tries, want %d", name, len(f.calls), c.tries)
			}
			if c.want == nil {
				for _, o := range c.ops {
					if v := f.items[o.Key]["v"]; !cmp.Equal(v, number[uint64](1), exported) {
						t.Errorf("%s: %v has version %v", name, o.Key, v)
					}
				}
			}
		})
	}
}

// A write whose answer was lost, and which is turned away ever after, ends with the context, or while
// DynamoDB still knows its token; without a deadline, after about a minute. It is never called busy, as if nothing had been written.
func TestLostAndTurnedAwayEver(t *testing.T) {
	for name, ops := range map[string][]directory.Op{
		"one": {directory.Put(entryKey("p"), 0, nil)}, "two": {directory.Put(entryKey("p"), 0, nil), directory.Put(entryKey("q"), 0, nil)},
	} {
		for _, limit := range []time.Duration{0, 5 * time.Minute, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.fault = func(_ string, try int) fault {
					if try == 1 {
						return fault{after: errLost}
					}
					return fault{before: errSlow}
				}
				ctx, least, most := t.Context(), 10*time.Second, 3*time.Minute
				if limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
					least, most = limit, limit
				}
				if limit == time.Hour { // the token is forgotten earlier
					least, most = 9*time.Minute, 10*time.Minute
				}
				begun := time.Now()
				err := f.open().Write(ctx, directory.Batch{Operation: "op", Ops: ops})
				if took := time.Since(begun); took < least || took > most {
					t.Errorf("%s, limit %v: ends after %v", name, limit, took)
				}
				if err == nil || errors.Is(err, directory.ErrBusy) || !strings.Contains(err.Error(), "not known") || errors.Is(err, context.DeadlineExceeded) != (limit == 5*time.Minute) {
					t.Errorf("%s, limit %v: %v", name, limit, err)
				}
			})
		}
	}
}

// What was turned away alone when the context ended is known not to be written.
func TestTurnedAwayUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.fault = func(string, int) fault { return fault{before: errSlow} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := f.open(WithAttempts(1000)).Write(ctx, directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 0, nil)}})
		if !errors.Is(err, directory.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// A put that finds what its operation wrote in an earlier call is a conflict, which its caller judges.
func TestRepeatedCallIsAConflict(t *testing.T) {
	f := newFake(t)
	home := f.open()
	b := directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 0, []byte(`1`))}}
	write(t, home, b.Operation, b.Ops...)
	var conflict *directory.Conflict
	if err := home.Write(t.Context(), b); !errors.As(err, &conflict) {
		t.Errorf("%v, want a conflict", err)
	}
}

// A put whose answer was lost is not taken for another's, nor another's for it.
func TestLostAnswerOfAnother(t *testing.T) {
	for name, there := range map[string]struct{ operation, body, index string }{
		"another body": {"op", `2`, "x"}, "another operation": {"other", `1`, "x"}, "another index": {"op", `1`, "y"},
	} {
		f := newFake(t)
		home := f.open()
		write(t, home, there.operation, directory.Put(entryKey("p"), 0, []byte(there.body), there.index))
		script(f, fault{before: errLost}) // never arrives
		err := home.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 0, []byte(`1`), "x")}})
		var conflict *directory.Conflict
		if !errors.As(err, &conflict) || conflict.Failed[0].Have.Operation != there.operation {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
}

// What would leave no name of its operation goes as a transaction, whose token keeps it from counting
// twice.
func TestLostAnswerOfACounter(t *testing.T) {
	f := newFake(t)
	home := f.open()
	k := entryKey("p")
	write(t, home, "op-1", directory.Put(k, 0, []byte(`1`)))
	for i, op := range []directory.Op{
		directory.Require(k, directory.AnyVersion, directory.Delta{Counter: "n", By: 1, Max: 9}),
		directory.Put(k, directory.AnyVersion, []byte(`2`)),
	} {
		script(f, fault{after: errLost})
		write(t, home, fmt.Sprint("op-", i+2), op)
	}
	records, err := home.Read(t.Context(), directory.Strong, k)
	if err != nil || records[0].Version != 2 || records[0].Counters["n"] != 1 {
		t.Errorf("version %d, counted %d, %v", records[0].Version, records[0].Counters["n"], err)
	}
}

func TestThrottledReadsAreBusy(t *testing.T) {
	f := newFake(t)
	f.fault = func(string, int) fault { return fault{before: errSlow} }
	home := f.open()
	for name, do := range map[string]func() error{
		"read": func() error { _, err := home.Read(t.Context(), directory.Strong, entryKey("p")); return err },
		"reads": func() error {
			_, err := home.Read(t.Context(), directory.Strong, entryKey("p"), entryKey("q"))
			return err
		},
		"scan": func() error {
			_, err := home.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, 1)
			return err
		},
		"query": func() error {
			_, err := home.List(t.Context(), directory.Range{Family: "ENTRY", Part: "p"}, directory.Key{}, 1)
			return err
		},
	} {
		if err := do(); !errors.Is(err, directory.ErrBusy) || !errors.Is(err, errSlow) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBodyMustBeText(t *testing.T) {
	f := newFake(t)
	err := f.open().Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 0, []byte("\xff"))}})
	if !errors.Is(err, directory.ErrInvalid) || len(f.calls) != 0 {
		t.Errorf("%v, requests %v", err, f.calls)
	}
}

// The SDK must not repeat a write by itself: Write would not know that one came before.
func TestTheSDKDoesNotRepeatWrites(t *testing.T) {
	f := newFake(t)
	home := f.open()
	write(t, home, "op-1", directory.Put(entryKey("p"), 0, nil))
	write(t, home, "op-2", directory.Put(entryKey("p"), 1, nil), directory.Put(entryKey("q"), 0, nil))
	if len(f.once) != 2 || !f.once[0] || !f.once[1] {
		t.Errorf("writes that are sent once: %v", f.once)
	}
}

// A page of a part is full in one request, also when it goes on after a record.
func TestPageOfAPartIsOneRequest(t *testing.T) {
	f := newFake(t)
	f.page = 100
	home := f.open()
	for i := range 6 {
		write(t, home, "op", directory.Put(directory.Key{Part: "p", Sort: fmt.Sprint("LOG#", i)}, 0, nil))
	}
	f.calls = nil
	records, err := home.List(t.Context(), directory.Range{Family: "LOG", Part: "p"}, directory.Key{Part: "p", Sort: "LOG#1"}, 3)
	if err != nil || len(records) != 3 || records[0].Sort != "LOG#2" || len(f.calls) != 1 {
		t.Errorf("%v, %v, by requests %v", records, err, f.calls)
	}
	for part, n := range map[string]int{"a": 6, "z": 0} { // of another part, before this one or after it
		if records, err := home.List(t.Context(), directory.Range{Family: "LOG", Part: "p"}, directory.Key{Part: part, Sort: "LOG#3"}, 9); err != nil || len(records) != n {
			t.Errorf("after part %s: %d records, %v; want %d", part, len(records), err, n)
		}
	}
}

func TestListGoesOnInItsFamilyOnly(t *testing.T) {
	f := newFake(t)
	for _, r := range []directory.Range{{Family: "ENTRY"}, {Family: "ENTRY", Index: directory.First, Value: "x"}} {
		if _, err := f.open().List(t.Context(), r, directory.Key{Part: "p", Sort: "LOG#1"}, 1); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Records of one part under one value, of one family and of others, are each listed once, whatever the pages.
func TestManyOfAPartUnderOneValue(t *testing.T) {
	f := newFake(t)
	home := f.open()
	want := map[directory.Key]bool{}
	for i := range 7 {
		for _, part := range []string{"p", "q"} {
			k := directory.Key{Part: part, Sort: fmt.Sprintf("LOG#%d", i)}
			write(t, home, "op", directory.Put(k, 0, nil, "BY#ana"))
			write(t, home, "op", directory.Put(directory.Key{Part: part, Sort: fmt.Sprintf("ACCESS#%d", i)}, 0, nil, "BY#ana"))
			want[k] = true
		}
	}
	for _, limit := range []int{1, 2, 3, 5, 100} {
		f.calls = nil
		seen, after, n := map[directory.Key]bool{}, directory.Key{}, limit
		for n == limit {
			records, err := home.List(t.Context(), directory.Range{Family: "LOG", Index: directory.First, Value: "BY#ana"}, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if seen[r.Key] {
					t.Errorf("limit %d: %v is listed twice", limit, r.Key)
				}
				seen[r.Key], after = true, r.Key
			}
			n = len(records)
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
		if most := len(want)/min(limit, f.page) + len(want)/limit + 2; len(f.calls) > most {
			t.Errorf("limit %d: %d requests, want at most %d: other families are read, too", limit, len(f.calls), most)
		}
	}
}

// An index value has to leave room for the family.
func TestLongIndexValues(t *testing.T) {
	f := newFake(t)
	put := func(n int) error {
		return f.open().Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 0, nil, strings.Repeat("i", n))}})
	}
	if err := put(2048 - len("ENTRY#") + 1); !errors.Is(err, directory.ErrTooLarge) || len(f.calls) > 0 {
		t.Errorf("2049 bytes with the family: %v, after requests %v", err, f.calls)
	}
	if err := put(2048 - len("ENTRY#")); err != nil {
		t.Errorf("2048 bytes with the family: %v", err)
	}
}
