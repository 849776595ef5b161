// Package directorytest is the contract of the directory as test suites, which every home runs under the
// same names: Home for the records, Directory for the rules above them, Run for the narrow Store.
package directorytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// Run runs the suite of directory.Store. open gives an empty store, or one in which no tenant's id begins with the
// test's name; it is called once for each test. Cells
// eu-1 and us-1 must have topologies up to version 3, where the store knows of cells.
func Run(t *testing.T, open func(t *testing.T) directory.Store) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, suite)
	}{
		{"GetOfNobody", getOfNobody},
		{"CreateThenGet", createThenGet},
		{"CreateTwice", createTwice},
		{"LostAnswerOfCreate", lostAnswerOfCreate},
		{"CompareAndSet", compareAndSet},
		{"CompareAndSetOfNobody", compareAndSetOfNobody},
		{"CompareAndSetBehind", compareAndSetBehind},
		{"LostAnswerOfCompareAndSet", lostAnswerOfCompareAndSet},
		{"OperationIsNotBelievedForAnotherChange", operationReused},
		{"OneWriterWinsEachEpoch", oneWriterWinsEachEpoch},
		{"OneCreatorWins", oneCreatorWins},
		{"SharesNoMemory", sharesNoMemory},
		{"NamesOfEveryKind", namesOfEveryKind},
		{"ListInPages", listInPages},
		{"ListWhileItChanges", listWhileItChanges},
		{"ListRefusesNoLimit", listRefusesNoLimit},
		{"InvalidEntriesChangeNothing", invalidEntries},
		{"CancelledContext", cancelledContext},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, suite{open(t), t.Name()}) })
	}
}

type suite struct {
	directory.Store
	prefix string
}

// at is a fixed time: a store must keep it as it was given, to the nanosecond.
var at = time.Date(2026, 11, 30, 10, 20, 30, 123456789, time.UTC)

func (s suite) entry(tenant, operation string) directory.Entry {
	sum := tenant
	if len(tenant) < 60 { // long ids are tests of their own
		sum = s.prefix[max(0, len(s.prefix)-60):] + "/" + tenant
	}
	return directory.Entry{
		Tenant: sum, Cell: "eu-1", State: directory.Active, Size: "whale", Pins: []string{"s02", "s07"},
		Topology: 3, Updated: at, Operation: operation,
	}
}

func (s suite) create(t *testing.T, e directory.Entry) directory.Entry {
	t.Helper()
	got, err := s.Create(t.Context(), e)
	if err != nil {
		t.Fatalf("create %q: %v", e.Tenant, err)
	}
	return got
}

// stands fails unless want is what Get returns.
func (s suite) stands(t *testing.T, want directory.Entry) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Tenant)
	if err != nil {
		t.Fatalf("get %q: %v", want.Tenant, err)
	}
	if diff := diff(want, got); diff != "" {
		t.Fatalf("entry that stands (-want +got):\n%s", diff)
	}
}

// diff compares entries. When a tenant was created only a Directory remembers.
func diff(want, got directory.Entry) string {
	want.Created, got.Created = time.Time{}, time.Time{}
	return cmp.Diff(want, got)
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %q", err, want)
	}
}

func getOfNobody(t *testing.T, s suite) {
	_, err := s.Get(t.Context(), s.entry("nobody", "o").Tenant)
	wantIs(t, err, directory.ErrNotFound)
}

func createThenGet(t *testing.T, s suite) {
	e := s.entry("acme", "op-1")
	e.Epoch = 77 // the store's to give
	got := s.create(t, e)
	e.Epoch = 1
	if diff := diff(e, got); diff != "" {
		t.Fatalf("created (-want +got):\n%s", diff)
	}
	s.stands(t, e)

	bare := s.entry("bare", "op-2")
	bare.Size, bare.Pins, bare.Topology = "", nil, 0
	s.create(t, bare)
	bare.Epoch = 1
	s.stands(t, bare)
}

func createTwice(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	_, err := s.Create(t.Context(), s.entry("acme", "op-2"))
	wantIs(t, err, directory.ErrExists)
	s.stands(t, first)
}

func lostAnswerOfCreate(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	again := s.entry("acme", "op-1")
	again.Updated = at.Add(time.Minute)
	if diff := diff(first, s.create(t, again)); diff != "" {
		t.Fatalf("repeated create (-want +got):\n%s", diff)
	}
	s.stands(t, first)
	if _, err := s.CompareAndSet(t.Context(), 1, s.entry("acme", "op-2")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Create(t.Context(), again); err == nil && diff(first, got) != "" || err != nil && !errors.Is(err, directory.ErrExists) {
		t.Errorf("repeated after another change: %+v, %v; want what it wrote, or %q", got, err, directory.ErrExists)
	}
	again.Epoch, again.Operation = 2, "op-2"
	again.Updated = at
	s.stands(t, again)
}

func compareAndSet(t *testing.T, s suite) {
	s.create(t, s.entry("acme", "op-1"))
	e := s.entry("acme", "op-2")
	e.State, e.Pins = directory.Moving, nil
	for epoch := uint64(1); epoch <= 2; epoch++ {
		got, err := s.CompareAndSet(t.Context(), epoch, e)
		if err != nil {
			t.Fatal(err)
		}
		e.Epoch = epoch + 1
		if diff := diff(e, got); diff != "" {
			t.Fatalf("changed (-want +got):\n%s", diff)
		}
		s.stands(t, e)
		e.Cell, e.State, e.Operation = "us-1", directory.Active, "op-3"
	}
}

func compareAndSetOfNobody(t *testing.T, s suite) {
	for _, expect := range []uint64{0, 1} {
		_, err := s.CompareAndSet(t.Context(), expect, s.entry("nobody", "op-1"))
		wantIs(t, err, directory.ErrNotFound)
	}
	_, err := s.Get(t.Context(), s.entry("nobody", "").Tenant)
	wantIs(t, err, directory.ErrNotFound)
}

func compareAndSetBehind(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	for _, expect := range []uint64{0, 2, 1 << 62} {
		_, err := s.CompareAndSet(t.Context(), expect, s.entry("acme", "op-2"))
		wantIs(t, err, directory.ErrStale)
	}
	s.stands(t, first)
}

func lostAnswerOfCompareAndSet(t *testing.T, s suite) {
	s.create(t, s.entry("acme", "op-1"))
	change := s.entry("acme", "op-2")
	change.State = directory.Suspended
	first, err := s.CompareAndSet(t.Context(), 1, change)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.CompareAndSet(t.Context(), 1, change)
	if err != nil {
		t.Fatalf("repeated change: %v", err)
	}
	if diff := diff(first, again); diff != "" {
		t.Fatalf("repeated change (-want +got):\n%s", diff)
	}
	s.stands(t, first)
	if _, err := s.CompareAndSet(t.Context(), 2, s.entry("acme", "op-3")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.CompareAndSet(t.Context(), 1, change); err == nil && diff(first, got) != "" || err != nil && !errors.Is(err, directory.ErrStale) {
		t.Errorf("repeated after another change: %+v, %v; want what it wrote, or %q", got, err, directory.ErrStale)
	}
	if got, err := s.Get(t.Context(), first.Tenant); err != nil || got.Epoch != 3 {
		t.Errorf("epoch %d, %v; want 3", got.Epoch, err)
	}
}

func operationReused(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	other := s.entry("acme", "op-1")
	other.Cell = "us-1"
	_, err := s.Create(t.Context(), other)
	wantIs(t, err, directory.ErrExists)
	_, err = s.CompareAndSet(t.Context(), 0, other)
	wantIs(t, err, directory.ErrStale)
	s.stands(t, first)
}

func sharesNoMemory(t *testing.T, s suite) {
	given := s.entry("acme", "op-1")
	returned := s.create(t, given)
	want := returned.Clone()
	given.Pins[0], returned.Pins[0] = "given", "returned"
	s.stands(t, want)
	got, err := s.Get(t.Context(), want.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	got.Pins[0] = "got"
	s.stands(t, want)
}

// names are tenant ids that a home could take for something else.
func names() []string {
	return []string{
		"x", "ACME", "acme", "acme ", "a/b", "a#b", "TENANT#a", "a\x00b", "a\nb", "\x7f", `"\`, "%41",
		"ä", "a\u0308", "日本語", "\U0001F512", "\ufffd", "\uffff", "..", "é",
		strings.Repeat("n", 128), strings.Repeat("\U0001F512", 32),
	}
}

func namesOfEveryKind(t *testing.T, s suite) {
	names := names()
	for i, name := range names {
		s.create(t, s.entry(name, fmt.Sprintf("op-%d", i)))
	}
	for i, name := range names {
		want := s.entry(name, fmt.Sprintf("op-%d", i))
		want.Epoch = 1
		s.stands(t, want)
	}
}

// pins are n different ones.
func pins(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("p%02d", i)
	}
	return all
}

func invalidEntries(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	spoil := map[string]func(*directory.Entry){
		"no tenant":        func(e *directory.Entry) { e.Tenant = "" },
		"long tenant":      func(e *directory.Entry) { e.Tenant = strings.Repeat("n", 129) },
		"not UTF-8":        func(e *directory.Entry) { e.Tenant = "a\xff" },
		"no cell":          func(e *directory.Entry) { e.Cell = "" },
		"no state":         func(e *directory.Entry) { e.State = "" },
		"unknown state":    func(e *directory.Entry) { e.State = "lost" },
		"empty pin":        func(e *directory.Entry) { e.Pins = []string{"s01", ""} },
		"pin twice":        func(e *directory.Entry) { e.Pins = []string{"s01", "s02", "s01"} },
		"too many pins":    func(e *directory.Entry) { e.Pins = pins(32) },
		"long size":        func(e *directory.Entry) { e.Size = strings.Repeat("s", 17) },
		"no operation":     func(e *directory.Entry) { e.Operation = "" },
		"long operation":   func(e *directory.Entry) { e.Operation = strings.Repeat("o", 129) },
		"binary operation": func(e *directory.Entry) { e.Operation = "\xff" },
	}
	for name, spoil := range spoil {
		e := s.entry("acme", "op-2")
		spoil(&e)
		if _, err := s.Create(t.Context(), e); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("create, %s: %v, want %q", name, err, directory.ErrInvalid)
		}
		if _, err := s.CompareAndSet(t.Context(), 1, e); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("change, %s: %v, want %q", name, err, directory.ErrInvalid)
		}
	}
	s.stands(t, first)
}

func cancelledContext(t *testing.T, s suite) {
	first := s.create(t, s.entry("acme", "op-1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, first.Tenant)
	wantIs(t, err, context.Canceled)
	_, err = s.Create(ctx, s.entry("new", "op-1"))
	wantIs(t, err, context.Canceled)
	_, err = s.CompareAndSet(ctx, 1, s.entry("acme", "op-2"))
	wantIs(t, err, context.Canceled)
	_, err = s.List(ctx, "", 1)
	wantIs(t, err, context.Canceled)
	s.stands(t, first)
}
