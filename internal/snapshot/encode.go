package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// format is the number of this version's encoding. Another one is refused: a keeper and its routers are
// deployed together, and the directory serves until they agree.
const format = 1

// meta is all that is small, as JSON.
type meta struct {
	Cells      []string             `json:"cells,omitempty"` // of a front door's entries
	Topologies []directory.Topology `json:"topologies"`
	Keys       map[string][]byte    `json:"keys"`
	Issuer     json.RawMessage      `json:"issuer,omitempty"`
	Health     []Report             `json:"health"`
	Suspects   []Suspect            `json:"suspects,omitempty"`
}

func (s *Snapshot) meta() ([]byte, error) {
	return json.Marshal(meta{s.Entries.cells, s.Topologies, plain(s.Keys), s.IssuerKeys, s.Health, s.Suspects})
}

// Encode returns the snapshot's bytes, unsealed: its keys are in them. ErrInvalid when it cannot be one.
//
//	1 byte    format
//	cell      1 byte of length, the name
//	numbers   unsigned varints: generation; when it was taken and each part was read, in nanoseconds since
//	          1970, 0 for never
//	meta      unsigned varint of length, JSON
//	entries   unsigned varint of number, then as Entries has them
func Encode(s *Snapshot) ([]byte, error) { return s.encode(nil, 0) }

// encode appends the snapshot to a prefix, and leaves room behind it.
func (s *Snapshot) encode(prefix []byte, room int) ([]byte, error) {
	ordered := s.sorted()
	if err := ordered.check(); err != nil {
		return nil, err
	}
	small, err := ordered.meta()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case len(small) > maxMeta:
		return nil, fmt.Errorf("%w: topologies, keys and reports take %d bytes, and %d are the most", ErrInvalid, len(small), maxMeta)
	}
	const numbers = 12 * binary.MaxVarintLen64
	out := make([]byte, 0, len(prefix)+2+maxName+numbers+len(small)+len(s.Entries.data)+room)
	out = append(out, prefix...)
	out = append(out, format)
	out = packShort(out, s.Cell)
	out = binary.AppendUvarint(out, s.Generation)
	out = appendTime(out, s.Taken)
	for _, t := range ordered.Times.all() {
		out = appendTime(out, *t)
	}
	out = binary.AppendUvarint(out, uint64(len(small)))
	out = append(out, small...)
	out = binary.AppendUvarint(out, uint64(s.Entries.Len()))
	return append(out, s.Entries.data...), nil
}

func appendTime(to []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(to, 0)
	}
	return binary.AppendUvarint(to, uint64(t.UnixNano()))
}

func (r *reader) time() time.Time {
	n := r.number()
	if n > math.MaxInt64 {
		r.bad = true
	}
	if n == 0 || r.bad {
		return time.Time{}
	}
	return time.Unix(0, int64(n)).UTC()
}

// Decode reads what Encode returned; the snapshot keeps the bytes. ErrMalformed when it is anything else.
func Decode(encoded []byte) (*Snapshot, error) {
	if len(encoded) > MaxBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are the most", ErrMalformed, len(encoded), MaxBytes)
	}
	r := reader{data: encoded}
	if f := r.octet(); f != format {
		return nil, fmt.Errorf("%w: its format is %d, and this version knows %d: keeper and router are of different versions", ErrMalformed, f, format)
	}
	s := &Snapshot{Cell: string(r.short()), Generation: r.number(), Taken: r.time()}
	for _, t := range s.Times.all() {
		*t = r.time()
	}
	size := r.number()
	if size > maxMeta {
		return nil, fmt.Errorf("%w: %d bytes of topologies, keys and reports", ErrMalformed, size)
	}
	small := r.take(int(size))
	count := r.number()
	if r.bad || count > maxEntries {
		return nil, fmt.Errorf("%w: it ends too early, or has numbers as none does", ErrMalformed)
	}
	var m meta
	if json.Unmarshal(small, &m) != nil { // the decoder's error would quote keys
		return nil, fmt.Errorf("%w: its topologies, keys and reports do not decode", ErrMalformed)
	}
	s.Topologies, s.IssuerKeys, s.Health, s.Suspects = m.Topologies, m.Issuer, m.Health, m.Suspects
	s.Keys = make(map[string]Secret, len(m.Keys))
	for version, key := range m.Keys {
		s.Keys[version] = key
	}
	s.Entries = &Entries{cell: s.Cell, cells: m.Cells}
	ordered := s.sorted()
	if again, err := ordered.meta(); err != nil || !bytes.Equal(again, small) { // a snapshot has one encoding
		return nil, fmt.Errorf("%w: its topologies, keys and reports are not as the keeper writes them", ErrMalformed)
	}
	if err := s.check(); err != nil { // before entries are read by the list of cells
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var err error
	if s.Entries, err = index(s.Cell, m.Cells, r.data, int(count)); err != nil {
		return nil, err
	}
	return s, nil
}
