package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// world is CloudFormation and the CDK's command line in memory: stacks by name, and change sets by stack and name.
type world struct {
	mu     sync.Mutex
	stacks map[string]Found
	places map[string]Place
	sets   map[string]Found // by stack and name, what the stack becomes
	calls  []string
	idle   bool // the command line does nothing, and says that all is well
	fail   error
}

func newWorld() *world {
	return &world{stacks: map[string]Found{}, places: map[string]Place{}, sets: map[string]Found{}}
}

// run has every stack of an assembly as it says.
func (w *world) run(a *Assembly, status rollout.StackStatus) {
	for _, x := range a.stacks {
		w.stacks[x.Name] = Found{Status: status, Said: "SAID", Hash: x.Hash, Tags: x.Tags, Protected: x.Protected}
		w.places[x.Name] = x.Place
	}
}

func (w *world) Read(_ context.Context, at Place, stacks []string) ([]Found, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "read "+strings.Join(stacks, " "))
	if w.fail != nil {
		return nil, w.fail
	}
	found := make([]Found, len(stacks))
	for i, name := range stacks {
		f, ok := w.stacks[name]
		if !ok {
			f.Status = rollout.Absent
		} else if w.places[name] != at {
			return nil, fmt.Errorf("stack %s lies in %s, not in %s", name, w.places[name], at)
		}
		found[i] = f
	}
	return found, nil
}

func (w *world) Prepare(_ context.Context, dir, set string, ids []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "prepare "+set+" "+strings.Join(ids, " "))
	if w.idle {
		return nil
	}
	a, err := Open(dir)
	if err != nil {
		return err
	}
	for _, id := range ids {
		i := slices.IndexFunc(a.stacks, func(x Stack) bool { return x.ID == id })
		x := a.stacks[i]
		w.places[x.Name] = x.Place
		w.sets[x.Name+" "+set] = Found{Status: rollout.Complete, Hash: x.Hash, Tags: x.Tags}
	}
	// As the command line does.
	put2(filepath.Join(dir, ".cache", "a.zip"))
	put2(filepath.Join(dir, "read.1.1.lock"))
	return nil
}

func put2(name string) {
	os.MkdirAll(filepath.Dir(name), 0o755)
	os.WriteFile(name, nil, 0o644)
}

func (w *world) Prepared(_ context.Context, _ Place, set string, stacks []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range stacks {
		if _, ok := w.sets[x+" "+set]; !ok {
			return fmt.Errorf("there is no change set %s of stack %s", set, x)
		}
	}
	return nil
}

func (w *world) Execute(ctx context.Context, at Place, set string, stacks []string, permit func(context.Context) error) error {
	if err := w.Prepared(ctx, at, set, stacks); err != nil {
		return err
	}
	if err := permit(ctx); err != nil {
		return fmt.Errorf("nothing was executed: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "execute "+set+" "+strings.Join(stacks, " "))
	for _, x := range stacks {
		w.stacks[x] = w.sets[x+" "+set]
	}
	return nil
}

func stacksIn(t testing.TB, w *world, f *fleet.Fleet, folder *Folder, digest string) *Stacks {
	t.Helper()
	s, err := NewStacks(f, digest, folder, w, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func stacksFor(t testing.TB, f *fleet.Fleet, a *Assembly) *Stacks {
	t.Helper()
	folder := keep(t, a)
	return stacksIn(t, newWorld(), f, folder, a.Digest)
}

func keep(t testing.TB, all ...*Assembly) *Folder {
	t.Helper()
	folder, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if _, err := folder.Keep(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func leave(context.Context) error { return nil }

// TestReadByTemplate is guarantee 5: of a stage's stacks, each in each of the states that matters.
func TestReadByTemplate(t *testing.T) {
	f := testFleet(t, fleetText)
	grown := testFleet(t, strings.Replace(fleetText, "shards: 5", "shards: 8", 1)) // in zone-a: s01, s04, and s07 only now
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(grown, "new", nil).write(t))
	other := opened(t, made(f, "none of them", nil).write(t))
	folder := keep(t, before, own)
	w := newWorld()
	s := stacksIn(t, w, grown, folder, own.Digest)
	of := func(a *Assembly, name string) Found {
		i := slices.IndexFunc(a.stacks, func(x Stack) bool { return x.Name == name })
		if i < 0 {
			return Found{Status: rollout.Absent}
		}
		return Found{Status: rollout.Complete, Hash: a.stacks[i].Hash, Tags: a.stacks[i].Tags}
	}
	set := func(states ...Found) {
		clear(w.stacks)
		for i, name := range []string{"orders-eu-1-shard-s01", "orders-eu-1-shard-s04", "orders-eu-1-shard-s07"} {
			w.places[name] = Place{"222222222222", "eu-west-1"}
			if states[i].Status != rollout.Absent {
				w.stacks[name] = states[i]
			}
		}
	}
	const s1, s4, s7 = "orders-eu-1-shard-s01", "orders-eu-1-shard-s04", "orders-eu-1-shard-s07"
	with := func(f Found, status rollout.StackStatus) Found { f.Status = status; return f }
	tagged := func(f Found, tags map[string]string) Found { f.Tags = tags; return f }
	none := Found{Status: rollout.Absent}
	more := map[string]string{"owner": "somebody"}
	for k, v := range of(own, s1).Tags {
		more[k] = v
	}
	for what, test := range map[string]struct {
		states []Found
		status rollout.StackStatus
		digest string
	}{
		"none":                 {[]Found{none, none, none}, rollout.Absent, ""},
		"all new":              {[]Found{of(own, s1), of(own, s4), of(own, s7)}, rollout.Complete, own.Digest},
		"all old":              {[]Found{of(before, s1), of(before, s4), none}, rollout.Complete, before.Digest},
		"old, with a leftover": {[]Found{of(before, s1), of(before, s4), of(own, s7)}, rollout.Complete, before.Digest},
		"one skipped":          {[]Found{of(own, s1), of(own, s4), none}, rollout.Complete, ""},
		"half":                 {[]Found{of(own, s1), of(before, s4), of(own, s7)}, rollout.Complete, ""},
		"unknown":              {[]Found{of(other, s1), of(other, s4), none}, rollout.Complete, ""},
		"others' tags":         {[]Found{tagged(of(own, s1), more), of(own, s4), of(own, s7)}, rollout.Complete, own.Digest},
		"a tag that is gone":   {[]Found{tagged(of(own, s1), nil), of(own, s4), of(own, s7)}, rollout.Complete, ""},
		"one went back":        {[]Found{of(own, s1), with(of(before, s4), rollout.RolledBack), of(own, s7)}, rollout.RolledBack, ""},
		"one went back to it":  {[]Found{of(own, s1), with(of(own, s4), rollout.RolledBack), of(own, s7)}, rollout.Complete, own.Digest},
		"all went back":        {[]Found{with(of(before, s1), rollout.RolledBack), with(of(before, s4), rollout.RolledBack), none}, rollout.RolledBack, before.Digest},
		"one failed":           {[]Found{of(own, s1), of(own, s4), with(of(own, s7), rollout.Failed)}, rollout.Failed, own.Digest},
		"one is stuck":         {[]Found{of(own, s1), with(of(before, s4), rollout.Stuck), with(none, rollout.Failed)}, rollout.Stuck, ""},
		"one is under way":     {[]Found{of(own, s1), with(of(own, s4), rollout.Stuck), {Status: rollout.InProgress}}, rollout.InProgress, ""},
		"one is unheard of":    {[]Found{of(own, s1), of(own, s4), with(of(own, s7), "party")}, rollout.Unknown, own.Digest},
		"no template":          {[]Found{{Status: rollout.Complete, Tags: of(own, s1).Tags}, of(own, s4), of(own, s7)}, rollout.Complete, ""},
	} {
		set(test.states...)
		r, err := s.Read(t.Context(), "eu-1", "zone-a", "")
		if bad := test.status != rollout.Complete && test.status != rollout.Absent; bad != strings.Contains(r.Why, "stack orders-eu-1-shard-s0") {
			t.Errorf("%s: %s, and why: %q", what, r.Stack, r.Why)
		}
		if err != nil || r.Stack != test.status || r.Digest != test.digest {
			t.Errorf("%s: %s with %s, %v; want %s with %s", what, r.Stack, r.Digest, err, test.status, test.digest)
		}
	}
	w.fail = errors.New("access denied")
	if r, err := s.Read(t.Context(), "eu-1", "zone-a", ""); r.Stack != rollout.Unknown || !errors.Is(err, w.fail) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Read(t.Context(), "eu-9", "zone-a", ""); r.Stack != rollout.Unknown || !errors.Is(err, ErrRefused) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPrepareChangesNothing is guarantee 6.
func TestPrepareChangesNothing(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	folder := keep(t, before, own)
	for status, ok := range map[rollout.StackStatus]bool{rollout.Complete: true, rollout.RolledBack: true, rollout.Absent: true,
		rollout.Failed: false, rollout.Stuck: false, rollout.InProgress: false, rollout.Unknown: false} {
		w := newWorld()
		w.run(before, rollout.Complete)
		w.stacks["orders-eu-1-shard-s04"] = Found{Status: status, Said: "ROLLBACK_COMPLETE"}
		s := stacksIn(t, w, f, folder, own.Digest)
		err := s.Prepare(t.Context(), "eu-1", "zone-a", own.Digest, 7)
		prepared := slices.ContainsFunc(w.calls, func(c string) bool { return strings.HasPrefix(c, "prepare") })
		if prepared != ok || (err == nil) != ok || !ok && !strings.Contains(err.Error(), "stack orders-eu-1-shard-s04 is "+string(status)+" (ROLLBACK_COMPLETE): nothing is prepared for it") {
			t.Errorf("%s: %v after %v", status, err, w.calls)
		}
	}
	w := newWorld()
	w.run(before, rollout.Complete)
	x := w.stacks["orders-eu-1-core"]
	x.Protected = true
	w.stacks["orders-eu-1-core"] = x
	s := stacksIn(t, w, f, folder, own.Digest)
	if err := s.Prepare(t.Context(), "eu-1", "core", own.Digest, 7); err == nil || !strings.Contains(err.Error(), "termination protection: true, and the assembly wants false") {
		t.Errorf("%v", err)
	}
	if err := s.Restore(t.Context(), "eu-1", "core", before.Digest, 7, leave); err != nil {
		t.Errorf("what protects a stack from its end kept it from its way back: %v", err)
	}
}

// TestDeploy: a stage goes to a digest and back, and each time is read as that.
// TestWentBackBefore: a stack that went back before the rollout's change of its stage is not taken for a failure of that
// change, and one that went back after it is, whether the others were changed or not.
func TestWentBackBefore(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	w := newWorld()
	w.run(before, rollout.Complete)
	s := stacksIn(t, w, f, keep(t, before, own), own.Digest)
	read := func(wentBack string) run.Reading {
		t.Helper()
		r, err := s.Read(t.Context(), "eu-1", "zone-a", wentBack)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const s1, s4 = "orders-eu-1-shard-s01", "orders-eu-1-shard-s04"
	change := func(stack string, a *Assembly, status rollout.StackStatus, minute int) {
		i := slices.IndexFunc(a.stacks, func(x Stack) bool { return x.Name == stack })
		w.stacks[stack] = Found{Status: status, Hash: a.stacks[i].Hash, Tags: a.stacks[i].Tags, Began: time.Unix(int64(60*minute), 0)}
	}
	if r := read(""); r.Stack != rollout.Complete || r.WentBack != "" {
		t.Errorf("none went back: %+v", r)
	}
	change(s4, before, rollout.RolledBack, 1)
	first := read("")
	if first.Stack != rollout.RolledBack || first.Digest != before.Digest || first.WentBack == "" {
		t.Errorf("one went back: %+v", first)
	}
	if r := read(first.WentBack); r.Stack != rollout.Complete || r.Digest != before.Digest || r.WentBack != first.WentBack {
		t.Errorf("it went back before: %+v", r)
	}
	change(s1, own, rollout.Complete, 2)
	if r := read(first.WentBack); r.Stack != rollout.Complete || r.Digest != "" {
		t.Errorf("half of the stage was executed: %+v", r)
	}
	change(s4, before, rollout.RolledBack, 3)
	if r := read(first.WentBack); r.Stack != rollout.RolledBack {
		t.Errorf("it went back again: %+v", r)
	}
	change(s4, before, rollout.RolledBack, 1)
	change(s1, before, rollout.RolledBack, 4)
	if r := read(first.WentBack); r.Stack != rollout.RolledBack || r.Digest != before.Digest {
		t.Errorf("another went back: %+v", r)
	}
}

func TestDeploy(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	w := newWorld()
	w.run(before, rollout.Complete)
	folder := keep(t, before, own)
	s := stacksIn(t, w, f, folder, own.Digest)
	is := func(want string) {
		t.Helper()
		if r, err := s.Read(t.Context(), "eu-1", "zone-b", ""); err != nil || r.Stack != rollout.Complete || r.Digest != want {
			t.Errorf("%s with %s, %v; want %s", r.Stack, r.Digest, err, want)
		}
	}
	is(before.Digest)
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 7); err != nil {
		t.Fatal(err)
	}
	is(before.Digest)
	lost := errors.New("the lease is lost")
	if err := s.Execute(t.Context(), "eu-1", "zone-b", own.Digest, 7, func(context.Context) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
	is(before.Digest)
	if err := s.Execute(t.Context(), "eu-1", "zone-b", own.Digest, 8, leave); err == nil {
		t.Error("another fencing number's sets were executed")
	}
	if err := s.Execute(t.Context(), "eu-1", "zone-b", own.Digest, 7, leave); err != nil {
		t.Fatal(err)
	}
	is(own.Digest)
	if err := s.Restore(t.Context(), "eu-1", "zone-b", before.Digest, 7, leave); err != nil {
		t.Fatal(err)
	}
	is(before.Digest)
	want := "execute cellwall-" + own.Digest[7:19] + "-7 orders-eu-1-shard-s02 orders-eu-1-shard-s05"
	if !slices.Contains(w.calls, want) || !slices.Contains(w.calls, "prepare cellwall-"+own.Digest[7:19]+"-7 eu-1/shard-s02 eu-1/shard-s05") {
		t.Errorf("%q, want %q", w.calls, want)
	}

	// What the command line left beside the copy is no part of it; what changes in the copy is.
	dir := s.open.dirs[own.Digest].copy()
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 9); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(dir, "cdk.out"), "{}")
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 9); err != nil || s.open.dirs[own.Digest].copy() == dir {
		t.Errorf("%v; it deploys from %s still", err, dir)
	}
	second := s.open.dirs[own.Digest].copy()
	if err := os.RemoveAll(second); err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 9); err != nil {
		t.Error(err)
	}
	third := s.open.dirs[own.Digest].copy()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{dir, second, third} {
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			t.Error("a copy was left")
		}
	}
	// The command line says that all is well, and has made nothing.
	w.idle = true
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 10); err == nil || !strings.Contains(err.Error(), "there is no change set") {
		t.Errorf("%v", err)
	}
	for _, no := range []string{"sha256:" + strings.Repeat("0", 64), "", "x"} {
		wants(t, s.Prepare(t.Context(), "eu-1", "zone-b", no, 1), ErrNoDigest, no)
		wants(t, s.Restore(t.Context(), "eu-1", "zone-b", no, 1, leave), ErrNoDigest, no)
		_, err := NewStacks(f, no, folder, w, w)
		wants(t, err, ErrNoDigest, no)
	}
	wants(t, s.Prepare(t.Context(), "eu-1", "zone-d", own.Digest, 1), ErrRefused, "no stack of cell eu-1, stage zone-d")
	wants(t, s.Execute(t.Context(), "eu-1", "zone-d", own.Digest, 1, leave), ErrRefused, "no stack of cell eu-1, stage zone-d")
	moved := testFleet(t, strings.Replace(fleetText, "region: us-east-1", "region: us-west-2", 1))
	wants(t, stacksIn(t, w, moved, folder, own.Digest).Prepare(t.Context(), "us-1", "core", own.Digest, 1), ErrRefused, "lies in 222222222222/us-east-1")
}

// TestRestoredAmongEqual: a stage is the same in two former assemblies, and the one that it did not run was kept last. What
// is brought back to the other is read as that one.
func TestRestoredAmongEqual(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	twin := opened(t, made(f, "old", func(stack string, template object) {
		if stack == "orders-global" {
			template["Outputs"] = object{"X": object{"Value": "y"}}
		}
	}).write(t))
	w := newWorld()
	w.run(before, rollout.Complete)
	folder := keep(t, before, own)
	s := stacksIn(t, w, f, folder, own.Digest)
	read := func(s *Stacks) string {
		t.Helper()
		r, err := s.Read(t.Context(), "eu-1", "zone-b", "")
		if err != nil || r.Stack != rollout.Complete {
			t.Fatalf("%s, %v", r.Stack, err)
		}
		return r.Digest
	}
	previous := read(s)
	if err := s.Prepare(t.Context(), "eu-1", "zone-b", own.Digest, 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Execute(t.Context(), "eu-1", "zone-b", own.Digest, 7, leave); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Keep(t.Context(), twin); err != nil { // as a start does that is refused then
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	dir, _ := folder.path(twin.Digest)
	if err := os.Chtimes(dir, later, later); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(t.Context(), "eu-1", "zone-b", previous, 7, leave); err != nil {
		t.Fatal(err)
	}
	if got := read(s); previous != before.Digest || got != previous {
		t.Errorf("it runs %s after it was brought back to %s; the twin is %s", got, previous, twin.Digest)
	}
	// Who takes over then has asked for nothing yet.
	other := stacksIn(t, w, f, folder, own.Digest)
	if other.Former("eu-1", "zone-b", previous); read(other) != previous {
		t.Errorf("who takes over reads %s; the twin is %s", read(other), twin.Digest)
	}
}

// TestReadsWhatIsNeeded: of the assemblies that are kept, hundreds perhaps, a stage needs its own templates alone.
func TestReadsWhatIsNeeded(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	folder := keep(t, before, own)
	dir, err := folder.path(before.Digest)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "assembly-us-1", "orders-us-1-core.template.json"), "{")
	w := newWorld()
	w.run(before, rollout.Complete)
	s := stacksIn(t, w, f, folder, own.Digest)
	for cell, want := range map[string]string{"eu-1": before.Digest, "us-1": ""} {
		if r, err := s.Read(t.Context(), cell, "core", ""); err != nil || r.Stack != rollout.Complete || r.Digest != want {
			t.Errorf("%s: %s with %q, %v; want %q", cell, r.Stack, r.Digest, err, want)
		}
	}
	wants(t, s.Restore(t.Context(), "eu-1", "core", before.Digest, 1, leave), ErrDamaged, "has the digest")

	// The rollout's own is what was proved when it began, whatever comes to lie there.
	if dir, err = folder.path(own.Digest); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "assembly-eu-1", "orders-eu-1-core.template.json"), made(f, "old", nil)["assembly-eu-1/orders-eu-1-core.template.json"])
	if r, err := s.Read(t.Context(), "eu-1", "core", ""); err != nil || r.Digest != before.Digest {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOthers(t *testing.T) {
	f := testFleet(t, fleetText)
	before, own := opened(t, made(f, "old", nil).write(t)), opened(t, made(f, "new", nil).write(t))
	w := newWorld()
	s := stacksIn(t, w, f, keep(t, own), own.Digest)
	for want, prepare := range map[string]func(){
		"":                        func() { w.run(own, rollout.Complete) },
		"is not on this assembly": func() { w.run(before, rollout.Complete) },
		"is failed":               func() { w.run(own, rollout.Failed) },
		"is absent":               func() { clear(w.stacks) },
		"access denied":           func() { w.fail = errors.New("access denied") },
	} {
		w.fail = nil
		prepare()
		got, err := s.Others(t.Context())
		if err != nil || (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0], want) || want != "" && !strings.Contains(got[0], "orders-global") {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
