package directory

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrKey means that a placement key is not the one by which a topology places: by it, every subset would be
// another than the one that holds the tenant.
var ErrKey = errors.New("this is not the placement key by which the topology places")

const (
	keyCheckLabel = "cellwall placement key check" // never changes: checks are kept in topologies
	keyCheckBytes = 8
)

// isKeyCheck says whether text is what KeyCheck returns of some key.
func isKeyCheck(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == keyCheckBytes && hex.EncodeToString(sum) == text
}

// KeyCheck is a short fingerprint of a placement key: the first 8 bytes of the HMAC-SHA256 of a fixed label
// under it, in hexadecimal. It tells keys apart and gives nothing of them away, since a placement key has 32
// random bytes, too many to be tried.
func KeyCheck(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(keyCheckLabel))
	return hex.EncodeToString(mac.Sum(nil)[:keyCheckBytes])
}

// CheckKey refuses another key than the one that the topology has the fingerprint of, with ErrKey. A topology
// without a fingerprint takes any.
func (t Topology) CheckKey(key []byte) error {
	if t.KeyCheck == "" || t.KeyCheck == KeyCheck(key) {
		return nil
	}
	return fmt.Errorf("%w: topology %d of cell %q, by version %q of the key, which has the fingerprint %s and not %s",
		ErrKey, t.Version, t.Cell, t.KeyVersion, t.KeyCheck, KeyCheck(key))
}
