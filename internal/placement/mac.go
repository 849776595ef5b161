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

// save and its counterpart in sum cannot fail: crypto/sha256 documents that its hashes marshal and
// unmarshal, and the state comes from the same process.
func save(h hash.Hash) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("placement: crypto/sha256 does not save its state: " + err.Error())
	}
	return state
}

// sum is the HMAC of the two parts, one after the other.
func (m *mac) sum(tenant string, suffix []byte) (d digest) {
	h := sha256.New()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(m.inner); err != nil {
		panic("placement: crypto/sha256 does not restore its state: " + err.Error())
	}
	// A []byte of the tenant would be a copy on the heap; this one is on the stack.
	var chunk [sha256.BlockSize]byte
	for {
		n := copy(chunk[:], tenant)
		tenant = tenant[n:]
		if tenant == "" && n+len(suffix) <= len(chunk) {
			n += copy(chunk[n:], suffix)
			h.Write(chunk[:n])
			break
		}
		h.Write(chunk[:n])
		if tenant == "" {
			h.Write(suffix)
			break
		}
	}
	h.Sum(d[:0])
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(m.outer); err != nil {
		panic("placement: crypto/sha256 does not restore its state: " + err.Error())
	}
	h.Write(d[:])
	h.Sum(d[:0])
	return d
}
