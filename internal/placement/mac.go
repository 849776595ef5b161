package placement

import (
	"crypto/sha256"
	"encoding"
	"hash"
)

// mac is HMAC-SHA256 (RFC 2104) under one key, with the two blocks that depend on the key alone
// compressed in advance: what remains for a short message is two blocks.
//
// crypto/hmac does the same, but in a hash.Hash that remembers what was written: concurrent callers
// would need one each, from a pool that the garbage collector empties. Here the two states are
// constants and every sum restores them into digests of its own. Those stay on the stack, because
// sha256.New is inlined and its method calls are made direct; TestNoAllocations notices if a
// compiler no longer does so.
type mac struct {
	inner, outer []byte // marshaled SHA-256 states after the key's block; never written to
}

func newMAC(key []byte) mac {
	var block [sha256.BlockSize]byte
	if len(key) > len(block) {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	copy(block[:], key)
	pad := func(b byte) []byte {
		padded := block
		for i := range padded {
			padded[i] ^= b
		}
		h := sha256.New()
		h.Write(padded[:])
		return save(h)
	}
	return mac{inner: pad(0x36), outer: pad(0x5c)}
}

// save cannot fail: crypto/sha256 documents that its hashes marshal.
func save(h hash.Hash) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("placement: crypto/sha256 does not save its state: " + err.Error())
	}
	return state
}

// restore cannot fail on a state that save gave in the same process, nor would an error go unnoticed:
// it would leave another digest, and the vectors would fail. A check here would keep the call from
// being inlined and send h to the heap.
func restore(h hash.Hash, state []byte) {
	_ = h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
}

// sum sets d to the HMAC of the two parts, one after the other.
func (m *mac) sum(d *digest, id string, suffix []byte) {
	h := sha256.New()
	restore(h, m.inner)
	// The id goes through an array, because converted to a slice it would be a copy on the heap.
	var chunk [sha256.BlockSize]byte
	n := copy(chunk[:], id)
	for n < len(id) {
		h.Write(chunk[:])
		id = id[n:]
		n = copy(chunk[:], id)
	}
	if n+len(suffix) <= len(chunk) {
		n += copy(chunk[n:], suffix)
		suffix = nil
	}
	h.Write(chunk[:n])
	h.Write(suffix)
	h.Sum(d[:0])
	restore(h, m.outer)
	h.Write(d[:])
	h.Sum(d[:0])
}
