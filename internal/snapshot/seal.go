package snapshot

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Sealer is what the keeper seals with. Errors say that it could not be reached.
type Sealer interface {
	// DataKey returns a new key of 32 bytes for one snapshot, and the same one wrapped, which Unwrap opens.
	DataKey(ctx context.Context) (key Secret, wrapped []byte, err error)
	// Sign returns the message authentication code of a message of at most 4,096 bytes.
	Sign(ctx context.Context, message []byte) (mac []byte, err error)
}

// Opener is what routers open with. ErrForged when the code or the wrapped key was not made by the cell's
// keeper; any other error says that it could not be reached.
type Opener interface {
	Verify(ctx context.Context, message, mac []byte) error
	Unwrap(ctx context.Context, wrapped []byte) (key Secret, err error)
}

// A sealed snapshot is:
//
//	magic       8 bytes
//	header      4 bytes of length, big endian, then JSON
//	ciphertext  as long as the header says: AES-256-GCM under the data key, of what Encode returns, with
//	            magic and header as additional data
//	MAC         the rest, over a label and the SHA-256 of all before: the key service signs 4,096 bytes at most
const (
	magic     = "CWSNAP\x00\x01"
	macLabel  = "cellwall snapshot\x00" // no code that is made for another purpose is one of a snapshot
	maxHeader = 16 << 10
	maxMAC    = 4096
	keyBytes  = 32
	tagBytes  = 16
)

type header struct {
	Cell       string `json:"cell"`
	Generation uint64 `json:"generation"`
	Key        []byte `json:"key"` // wrapped
	Nonce      []byte `json:"nonce"`
	Size       int    `json:"size"` // of the ciphertext
}

// Seal encodes, encrypts and signs a snapshot. ErrInvalid when it cannot be one.
func Seal(ctx context.Context, with Sealer, s *Snapshot) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("seal snapshot %d of cell %q: %w", s.Generation, s.Cell, err)
	}
	key, wrapped, err := with.DataKey(ctx)
	if err != nil {
		return fail(err)
	}
	defer clear(key)
	gcm, err := aead(key)
	if err != nil {
		return fail(err)
	}
	h := header{s.Cell, s.Generation, wrapped, make([]byte, gcm.NonceSize()), 0}
	rand.Read(h.Nonce)
	// The header says how long the ciphertext is, so the plaintext is made once to be measured without its
	// entries, which are the bulk.
	small := *s
	small.Entries = &Entries{cell: s.Cell, cells: s.Entries.cells, offsets: s.Entries.offsets}
	measured, err := small.encode(nil, 0)
	if err != nil {
		return fail(err)
	}
	h.Size = len(measured) + len(s.Entries.data) + tagBytes
	clear(measured)
	front := h.front()
	out, err := s.encode(front, tagBytes+maxMAC)
	if err != nil {
		return fail(err)
	}
	out = gcm.Seal(out[:len(front)], h.Nonce, out[len(front):], front)
	mac, err := with.Sign(ctx, message(out))
	switch {
	case err != nil:
		return fail(err)
	case len(mac) == 0 || len(mac) > maxMAC || len(front) > maxHeader || len(out)+len(mac) > MaxBytes:
		return fail(fmt.Errorf("%w: %d bytes with a code of %d: want at most %d", ErrInvalid, len(out)+len(mac), len(mac), MaxBytes))
	}
	return append(out, mac...), nil
}

// front is what stands before the ciphertext.
func (h header) front() []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("encode a header: %v", err)) // strings, numbers and bytes do encode
	}
	front := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(text)))
	return append(front, text...)
}

func message(signed []byte) []byte {
	sum := sha256.Sum256(signed)
	return append([]byte(macLabel), sum[:]...)
}

func aead(key Secret) (cipher.AEAD, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("%w: a data key of %d bytes: want %d", ErrInvalid, len(key), keyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Want says which snapshot is wanted.
type Want struct {
	Cell  string
	Above uint64        // the generation that is held; 0 when none is
	Now   time.Time     // against snapshots from the future, and old ones; zero: of any time
	Age   time.Duration // from which it is refused; 0: never
}

// Open opens a sealed snapshot, and uses up its bytes. ErrCell, ErrOlder, ErrForged, ErrMalformed, ErrFuture
// and ErrTooOld refuse it; any other error says that it could not be judged, because the Opener could not be
// reached. What the signature is to tell is asked before anything is decrypted.
func Open(ctx context.Context, with Opener, sealed []byte, want Want) (*Snapshot, error) {
	fail := func(err error) (*Snapshot, error) {
		return nil, fmt.Errorf("open the snapshot of cell %q: %w", want.Cell, err)
	}
	p, err := split(sealed)
	switch {
	case err != nil:
		return fail(err)
	case p.Cell != want.Cell:
		return fail(fmt.Errorf("%w: it is of cell %q", ErrCell, p.Cell))
	case p.Generation <= want.Above:
		return fail(fmt.Errorf("%w: it has generation %d, and %d is held", ErrOlder, p.Generation, want.Above))
	}
	if err := with.Verify(ctx, message(p.signed), p.mac); err != nil {
		return fail(err)
	}
	key, err := with.Unwrap(ctx, p.Key)
	if err != nil {
		return fail(err)
	}
	defer clear(key)
	gcm, err := aead(key)
	if err != nil || len(p.Nonce) != gcm.NonceSize() {
		return fail(fmt.Errorf("%w: its key or nonce has another length", ErrMalformed))
	}
	plain, err := gcm.Open(p.ciphertext[:0], p.Nonce, p.ciphertext, p.front)
	if err != nil {
		return fail(fmt.Errorf("%w: it does not decrypt", ErrForged))
	}
	s, err := Decode(plain)
	switch {
	case err != nil:
		return fail(err)
	case s.Cell != p.Cell || s.Generation != p.Generation:
		return fail(fmt.Errorf("%w: inside it is generation %d of cell %q, and outside %d of %q", ErrMalformed, s.Generation, s.Cell, p.Generation, p.Cell))
	case !want.Now.IsZero() && s.Taken.After(want.Now.Add(MaxSkew)):
		return fail(fmt.Errorf("%w: it was taken at %s, and here it is %s", ErrFuture, s.Taken.Format(time.RFC3339), want.Now.UTC().Format(time.RFC3339)))
	case want.Age > 0 && want.Now.Sub(s.Taken) > want.Age:
		return fail(fmt.Errorf("%w: it was taken at %s, and %v is the most", ErrTooOld, s.Taken.Format(time.RFC3339), want.Age))
	}
	return s, nil
}

// parts are a sealed snapshot's, as slices of it.
type parts struct {
	header
	front, ciphertext, signed, mac []byte
}

func split(sealed []byte) (parts, error) {
	fail := func(what string) (parts, error) { return parts{}, fmt.Errorf("%w: %s", ErrMalformed, what) }
	if len(sealed) > MaxBytes {
		return fail(fmt.Sprintf("it has %d bytes, and %d are the most", len(sealed), MaxBytes))
	}
	if !bytes.HasPrefix(sealed, []byte(magic)) || len(sealed) < len(magic)+4 {
		return fail("it does not begin like one")
	}
	size := binary.BigEndian.Uint32(sealed[len(magic):])
	begin := len(magic) + 4 + int(size)
	if size > maxHeader || begin > len(sealed) {
		return fail("it ends within its header")
	}
	p := parts{front: sealed[:begin:begin]}
	if json.Unmarshal(sealed[len(magic)+4:begin], &p.header) != nil || !bytes.Equal(p.header.front(), p.front) {
		return fail("its header does not decode")
	}
	end := begin + p.Size
	if p.Size < tagBytes || p.Size > MaxBytes || end >= len(sealed) || len(sealed)-end > maxMAC {
		return fail("it is shorter or longer than its header says")
	}
	p.ciphertext, p.signed, p.mac = sealed[begin:end:end], sealed[:end:end], sealed[end:]
	return p, nil
}
