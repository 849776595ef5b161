package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

var errDown = errors.New("does not answer")

// memory is a Store in memory.
type memory struct {
	mu       sync.Mutex
	object   []byte
	version  int
	getErr   error
	putErr   error
	puts     int
	afterGet func()
}

func (m *memory) Get(_ context.Context, unless string) ([]byte, string, error) {
	m.mu.Lock()
	object, tag, err := bytes.Clone(m.object), fmt.Sprint(m.version), m.getErr
	after := m.afterGet
	m.mu.Unlock()
	if after != nil {
		after()
	}
	switch {
	case err != nil:
		return nil, "", err
	case object == nil:
		return nil, "", snapshot.ErrNone
	case tag == unless:
		return nil, "", snapshot.ErrSame
	}
	return object, tag, nil
}

func (m *memory) Put(_ context.Context, object []byte, tag string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.putErr != nil {
		return m.putErr
	}
	have := ""
	if m.object != nil {
		have = fmt.Sprint(m.version)
	}
	if have != tag {
		return snapshot.ErrChanged
	}
	m.object = bytes.Clone(object)
	m.version++
	m.puts++
	return nil
}

// ring is a keyring whose data keys are not wrapped, and whose codes are the message: whether sealing keeps a
// secret is internal/snapshot's to prove.
type ring struct{ down error }

func (r *ring) DataKey(context.Context) (snapshot.Secret, []byte, error) {
	return bytes.Repeat([]byte{1}, 32), []byte("wrapped"), r.down
}
func (r *ring) Sign(_ context.Context, message []byte) ([]byte, error) {
	return bytes.Clone(message), r.down
}
func (r *ring) Verify(_ context.Context, message, mac []byte) error {
	if r.down == nil && !bytes.Equal(message, mac) {
		return snapshot.ErrForged
	}
	return r.down
}
func (r *ring) Unwrap(context.Context, []byte) (snapshot.Secret, error) {
	return bytes.Repeat([]byte{1}, 32), r.down
}

// world is every source of one cell, each of which may be down.
type world struct {
	t          *testing.T
	now        time.Time
	store      memory
	ring       ring
	tenants    []directory.Entry
	tops       []directory.Topology
	drained    []directory.Drain
	suspects   []snapshot.Suspect
	keys       map[string][]byte
	jwks       string
	targets    map[string]Count
	throttles  map[string]float64
	ages       map[string]time.Duration
	down       map[string]bool // by name of a part
	told       sync.Mutex      // of what follows: several keepers may be at work at once
	asked      []string        // shards of the last question for health
	listLimits []int
}

const cell = "eu-1"

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), down: map[string]bool{},
		keys:      map[string][]byte{"1": bytes.Repeat([]byte{0xa1}, 32)},
		jwks:      `{"keys":[{"kid":"a"}]}`,
		targets:   map[string]Count{"s01": {1, 2}, "s02": {3, 3}},
		throttles: map[string]float64{"s01": 4},
		ages:      map[string]time.Duration{"s02": time.Minute},
		drained:   []directory.Drain{{Shard: "s02"}},
		suspects:  []snapshot.Suspect{{Tenant: "tenant-01", Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}},
	}
	w.tops = []directory.Topology{w.topology(1, "1")}
	for i := range 30 {
		w.tenants = append(w.tenants, w.entry(fmt.Sprintf("tenant-%02d", i), 5))
	}
	return w
}

func (w *world) entry(tenant string, epoch uint64) directory.Entry {
	return directory.Entry{Tenant: tenant, Cell: cell, State: directory.Active, Epoch: epoch, Topology: 1, Operation: "op", Load: 7}
}

func (w *world) topology(version uint64, key string) directory.Topology {
	return directory.Topology{Cell: cell, Version: version, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: key, KeyCheck: directory.KeyCheck(w.keys[key]),
		Published: w.now, Tenants: 30,
		Shards: []directory.Shard{{ID: "s01", Weight: 1, State: directory.InUse}, {ID: "s02", Weight: 1, State: directory.InUse}}}
}

func (w *world) is(part string) error {
	if w.down[part] {
		return fmt.Errorf("%s: %w", part, errDown)
	}
	return nil
}

func (w *world) ListCell(_ context.Context, _, after string, limit int) ([]directory.Entry, error) {
	w.told.Lock()
	w.listLimits = append(w.listLimits, limit)
	w.told.Unlock()
	at := slices.IndexFunc(w.tenants, func(e directory.Entry) bool { return e.Tenant > after })
	if at < 0 {
		return nil, w.is(partEntries)
	}
	return w.tenants[at:min(len(w.tenants), at+limit)], w.is(partEntries)
}

func (w *world) Topologies(context.Context, string, uint64, int) ([]directory.Topology, error) {
	return w.tops, w.is(partTopologies)
}

func (w *world) Cell(context.Context, string) (directory.Cell, error) {
	return directory.Cell{Name: cell, Drained: w.drained}, w.is(partDrains)
}

func (w *world) Key(_ context.Context, of, version string) ([]byte, error) {
	key, ok := w.keys[version]
	if of != cell || !ok {
		return nil, errors.New("no such key")
	}
	return key, w.is(partKeys)
}

func (w *world) JWKS(context.Context) (json.RawMessage, error) {
	return json.RawMessage(w.jwks), w.is(partIssuer)
}

func (w *world) Targets(_ context.Context, shards []string) (map[string]Count, error) {
	w.told.Lock()
	w.asked = shards
	w.told.Unlock()
	return w.targets, w.is(partTargets)
}

func (w *world) Throttles(context.Context, []string) (map[string]float64, error) {
	return w.throttles, w.is(partThrottles)
}

func (w *world) QueueAges(context.Context, []string) (map[string]time.Duration, error) {
	return w.ages, w.is(partQueues)
}

func (w *world) Suspects(context.Context) ([]snapshot.Suspect, error) {
	return w.suspects, w.is(partSuspects)
}

func (w *world) config() Config {
	return Config{Cell: cell, Store: &w.store, Keyring: &w.ring, Directory: w, Keys: w.Key, Issuer: w, Targets: w, Throttles: w, Queues: w, Suspects: w,
		Now: func() time.Time { return w.now }}
}

func (w *world) keeper() *Keeper {
	w.t.Helper()
	k, err := New(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// write runs the keeper once, which has to write, and returns what stands then.
func (w *world) write(o Options) (*snapshot.Snapshot, Outcome) {
	w.t.Helper()
	out, err := w.keeper().Write(w.t.Context(), o)
	if err != nil || !out.Written {
		w.t.Fatalf("written %t: %v", out.Written, err)
	}
	return w.stands(), out
}

func (w *world) stands() *snapshot.Snapshot {
	w.t.Helper()
	object, _, err := w.store.Get(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := snapshot.Open(w.t.Context(), &w.ring, object, snapshot.Want{Cell: cell})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) epoch(s *snapshot.Snapshot, tenant string) uint64 {
	e, _ := s.Entries.Lookup(tenant)
	return e.Epoch
}
