package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// schema names the form of the records. Another one is refused.
const schema = "cellwall.journal/v1"

// Bounds of what is written, in bytes of JSON.
const (
	maxState = 16 << 20 // before it is compressed; then directory.MaxRecord is its bound
	maxEvent = 256 << 10
	// aroundState is more than a record has beside its body: its key and its operation.
	aroundState = 2000
	maxWish     = 8 << 10
)

// The bodies of records. Each says what it is, so that one in another's place is found.
type (
	// lease is the latest lease of a service, and its latest rollout.
	lease struct {
		Schema  string    `json:"schema"`
		Service string    `json:"service"`
		Fencing uint64    `json:"fencing"`
		Holder  string    `json:"holder"`
		Until   time.Time `json:"until"`
		Freed   bool      `json:"freed,omitempty"`
		Latest  string    `json:"latest,omitempty"` // rollout
		Count   uint64    `json:"count,omitempty"`  // of rollouts, and the number of the latest
	}
	// line is one rollout in the list of all.
	line struct {
		Schema string `json:"schema"`
		Number uint64 `json:"number"`
		ID     string `json:"id"`
	}
	// standing is a rollout as it stands.
	standing struct {
		Schema string `json:"schema"`
		Seq    uint64 `json:"seq"`
		State  []byte `json:"state"` // JSON, by gzip
	}
	// happened is one transition.
	happened struct {
		Schema string         `json:"schema"`
		Seq    uint64         `json:"seq"`
		Event  *rollout.Event `json:"event,omitempty"`
	}
	// wishes are those of one rollout.
	wishes struct {
		Schema   string     `json:"schema"`
		Waiting  []run.Wish `json:"waiting"`
		Answered []string   `json:"answered"` // marks, the latest last
	}
)

func damaged(k directory.Key, format string, args ...any) error {
	return fmt.Errorf("%w: record %v: %w", ErrDamaged, k, fmt.Errorf(format, args...))
}

// decode reads a record's body: all of it, and nothing that is unknown.
func decode(r directory.Record, into any) error {
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return damaged(r.Key, "%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return damaged(r.Key, "something follows it")
	}
	return nil
}

// encode is for values of which no time is beyond the year 9999: the caller has checked that.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", rollout.ErrInvalid, err)
	}
	return body, nil
}

// leaseOf is what a record says of a service; the zero lease when there is none.
func leaseOf(r directory.Record, service string) (lease, error) {
	var l lease
	if r.Version == 0 {
		return l, nil
	}
	if err := decode(r, &l); err != nil {
		return l, err
	}
	if l.Schema != schema || l.Service != service || l.Fencing == 0 || l.Holder == "" || (l.Latest == "") != (l.Count == 0) {
		return l, damaged(r.Key, "it has no lease of service %q in the form %s", service, schema)
	}
	return l, nil
}

func (l lease) given() run.Lease {
	g := run.Lease{Service: l.Service, Holder: l.Holder, Fencing: l.Fencing, Until: l.Until}
	if l.Freed {
		g.Until = time.Time{}
	}
	return g
}

// is says that the lease stands, whether it has run out or not.
func (l lease) is(given run.Lease) bool {
	return l.Fencing > 0 && l.Fencing == given.Fencing && l.Holder == given.Holder && !l.Freed
}

// pack compresses a state that can be read again.
func pack(seq uint64, s rollout.State) (text, body []byte, err error) {
	if text, err = encode(s); err != nil {
		return nil, nil, err
	}
	if len(text) > maxState {
		return nil, nil, fmt.Errorf("%w: the rollout's state has %d bytes; at most %d", directory.ErrTooLarge, len(text), maxState)
	}
	if _, err := rollout.Decode(text); err != nil {
		return nil, nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	if body, err = encode(standing{schema, seq, packed.Bytes()}); err != nil {
		return nil, nil, err
	}
	if most := directory.MaxRecord - aroundState; len(body) > most {
		return nil, nil, fmt.Errorf("%w: the rollout's state has %d bytes when it is compressed; at most %d: roll out fewer cells at once", directory.ErrTooLarge, len(body), most)
	}
	return text, body, nil
}

// unpack reads how a rollout stands, and how many transitions led there.
func unpack(r directory.Record, service, id string) (uint64, rollout.State, error) {
	fail := func(err error) (uint64, rollout.State, error) {
		return 0, rollout.State{}, damaged(r.Key, "%w", err)
	}
	var at standing
	if err := decode(r, &at); err != nil {
		return 0, rollout.State{}, err
	}
	if at.Schema != schema || at.Seq != r.Version {
		return fail(fmt.Errorf("it is of transition %d at version %d, in the form %q", at.Seq, r.Version, at.Schema))
	}
	z, err := gzip.NewReader(bytes.NewReader(at.State))
	if err != nil {
		return fail(err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxState+1))
	switch {
	case err != nil:
		return fail(err)
	case len(text) > maxState:
		return fail(fmt.Errorf("its state has more than %d bytes", maxState))
	}
	s, err := rollout.Decode(text)
	switch {
	case err != nil:
		return fail(err)
	case s.Spec.Service != service || s.Spec.ID != id:
		return fail(fmt.Errorf("it is of rollout %q of service %q", s.Spec.ID, s.Spec.Service))
	}
	return at.Seq, s, nil
}

// eventOf reads the transition of a record.
func eventOf(r directory.Record, seq uint64) (*rollout.Event, error) {
	if r.Version == 0 {
		return nil, damaged(r.Key, "it is missing")
	}
	var h happened
	if err := decode(r, &h); err != nil {
		return nil, err
	}
	if h.Schema != schema || h.Seq != seq || r.Version != 1 || (h.Event == nil) != (seq == 1) {
		return nil, damaged(r.Key, "it is not transition %d in the form %s", seq, schema)
	}
	return h.Event, nil
}
