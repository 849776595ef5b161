package snapshot

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

var epoch0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// keyring seals and opens by two keys in memory, as a key service would. down is its error while it does not
// answer.
type keyring struct {
	key, mac byte
	down     error
	verified int
	unwraps  int
}

func (k *keyring) block() cipher.AEAD {
	b, _ := aes.NewCipher(bytes.Repeat([]byte{k.key}, 32))
	g, _ := cipher.NewGCM(b)
	return g
}

func (k *keyring) DataKey(context.Context) (Secret, []byte, error) {
	if k.down != nil {
		return nil, nil, k.down
	}
	key := make([]byte, 32)
	rand.Read(key)
	nonce := make([]byte, 12)
	rand.Read(nonce)
	return key, k.block().Seal(nonce, nonce, key, nil), nil
}

func (k *keyring) Sign(_ context.Context, message []byte) ([]byte, error) {
	h := hmac.New(sha256.New, bytes.Repeat([]byte{k.mac}, 32))
	h.Write(message)
	return h.Sum(nil), k.down
}

func (k *keyring) Verify(ctx context.Context, message, mac []byte) error {
	k.verified++
	want, err := k.Sign(ctx, message)
	if err == nil && !hmac.Equal(want, mac) {
		err = ErrForged
	}
	return err
}

func (k *keyring) Unwrap(_ context.Context, wrapped []byte) (Secret, error) {
	k.unwraps++
	if k.down != nil {
		return nil, k.down
	}
	if len(wrapped) < 12 {
		return nil, ErrForged
	}
	key, err := k.block().Open(nil, wrapped[:12], wrapped[12:], nil)
	if err != nil {
		return nil, ErrForged
	}
	return key, nil
}

var ring = keyring{key: 1, mac: 2}

// object is a Reader of one object in memory.
type object struct {
	mu   sync.Mutex
	data []byte
	tag  int
	down error
	gets atomic.Int32
	hang chan struct{} // when set, a Get waits for it
}

var errDown = errors.New("does not answer")

func (o *object) put(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = data
	o.tag++
}

func (o *object) Get(ctx context.Context, unless string) ([]byte, string, error) {
	o.mu.Lock()
	o.gets.Add(1)
	hang := o.hang
	o.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch tag := fmt.Sprint(o.tag); {
	case o.down != nil:
		return nil, "", o.down
	case o.data == nil:
		return nil, "", ErrNone
	case tag == unless:
		return nil, "", ErrSame
	default:
		return bytes.Clone(o.data), tag, nil
	}
}

func seeded(t testing.TB) *mathrand.Rand {
	t.Helper()
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	return mathrand.New(mathrand.NewPCG(seed, 0))
}

// randomEntry draws one that the directory could have.
func randomEntry(r *mathrand.Rand, tenant string) directory.Entry {
	e := directory.Entry{
		Tenant: tenant, Cell: "eu-1", State: states[r.IntN(4)], Epoch: 1 + r.Uint64N(1<<r.IntN(60)), Topology: r.Uint64N(300),
		Operation: "op", Updated: epoch0, Load: 5,
	}
	if r.IntN(3) == 0 {
		e.Size = []string{"whale", "small", "größte"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		e.Slot = 1 + r.Uint64N(1<<40)
	}
	if r.IntN(3) == 0 {
		for _, i := range r.Perm(16)[:1+r.IntN(5)] {
			e.Pins = append(e.Pins, fmt.Sprintf("s%02d", i+1))
		}
	}
	return e
}

func randomTenant(r *mathrand.Rand) string {
	id := make([]rune, 1+r.IntN(20))
	for i := range id {
		id[i] = []rune("abcz09-\x00 /éß語")[r.IntN(13)]
	}
	return string(id)
}

// random draws a snapshot of cell eu-1 with up to n tenants, and its entries as they should be found.
func random(t testing.TB, r *mathrand.Rand, n int) (*Snapshot, map[string]directory.Entry) {
	t.Helper()
	b, want := NewBuilder("eu-1"), map[string]directory.Entry{}
	for range n {
		e := randomEntry(r, randomTenant(r))
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
		if old, twice := want[e.Tenant]; !twice || e.Epoch > old.Epoch {
			want[e.Tenant] = e.Serving()
		}
	}
	entries, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{
		Cell: "eu-1", Generation: 1 + r.Uint64N(1<<50), Taken: epoch0.Add(time.Duration(r.Int64N(1e15))), Entries: entries,
		Topologies: []directory.Topology{
			{Cell: "eu-1", Version: 2, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2, "whale": 4}, KeyVersion: "1", Published: epoch0, Shards: []directory.Shard{{ID: "s01", Zone: "a", Weight: 1, State: directory.InUse}}},
			{Cell: "eu-1", Version: 1, Scheme: "hmac/v1", KBySize: map[string]int{"": 2}, KeyVersion: "2", Published: epoch0},
		},
		Keys:       map[string]Secret{"1": bytes.Repeat([]byte{0xa1}, 32), "2": bytes.Repeat([]byte{0xb2}, 32)},
		IssuerKeys: json.RawMessage(`{"keys":[{"kty":"RSA","n":"AQ\u003c"}]}`),
		Health:     []Report{{Shard: "s02", Drained: true}, {Shard: "s01", Healthy: 1, Targets: 2, Throttled: 1.5, QueueAge: time.Minute}},
		Suspects:   []Suspect{{Tenant: "zeta", Until: epoch0.Add(time.Minute)}, {Tenant: "acme", Until: epoch0.Add(time.Hour)}},
	}
	for i, at := range s.Times.all() {
		if r.IntN(4) > 0 {
			*at = epoch0.Add(time.Duration(i) * time.Second)
		}
	}
	return s, want
}

func seal(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	sealed, err := Seal(t.Context(), &ring, s)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// plain is a snapshot of one generation with one tenant of that epoch, taken at a time.
func plainSnapshot(t testing.TB, cell string, generation uint64, taken time.Time) *Snapshot {
	t.Helper()
	entries, err := Pack(cell, []directory.Entry{{Tenant: "acme", Cell: cell, State: directory.Active, Epoch: generation, Topology: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{Cell: cell, Generation: generation, Taken: taken, Entries: entries, Keys: map[string]Secret{"1": bytes.Repeat([]byte("k"), 32)}}
	s.Times.Entries = taken
	return s
}
