package placement

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"pgregory.net/rapid"
)

// The HMAC of this package is crypto/hmac's, for keys and messages of lengths around the block size.
func TestMAC(t *testing.T) {
	lengths := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(50, 70), rapid.IntRange(110, 140), rapid.IntRange(0, 1000))
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []byte {
			n := lengths.Draw(t, name+" length")
			return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name)
		}
		key, first, second := draw("key"), draw("first part"), draw("second part")
		m := newMAC(key)
		ref := hmac.New(sha256.New, key)
		ref.Write(first)
		ref.Write(second)
		for range 2 { // the second time from a state that was used
			var got digest
			if m.sum(&got, string(first), second); !bytes.Equal(got[:], ref.Sum(nil)) {
				t.Fatalf("got %x, want %x", got, ref.Sum(nil))
			}
		}
	})
}
