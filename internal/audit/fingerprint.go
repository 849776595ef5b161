package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// fingerprint names a finding from run to run: rule, what is shared, and who shares it. What is shared
// goes by its construct path, else its physical name, else its type and stack, so that a fingerprint
// survives other logical ids, other files and other numbers. Findings that cannot be told apart in this
// way have one fingerprint; a baseline counts them.
func (f *Finding) fingerprint() string {
	parts := []string{f.Rule}
	what := ""
	if r := f.Resource; r != nil {
		what = cmp.Or(r.Path, r.Name)
		if what == "" {
			what = r.Type + "\x00" + cmp.Or(r.Stack, r.File)
		}
	}
	parts = append(parts, what)
	if f.Limit != nil {
		parts = append(parts, f.Limit.Name) // several limits of one rule may bound one resource
	}
	for _, s := range f.Shards {
		parts = append(parts, s.Service, s.Cell, s.ID)
	}
	if len(f.Shards) == 0 && f.Limit == nil {
		parts = append(parts, f.anonymous()) // a review item or a waiver: the message says what it is about
	}
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte // the length before each part, so that no text of a template moves a boundary
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// anonymous is the message without the logical id of what it is about, where a path names that already.
func (f *Finding) anonymous() string {
	if f.Resource == nil || f.Resource.Path == "" || f.Resource.LogicalID == "" {
		return f.Message
	}
	return strings.ReplaceAll(f.Message, f.Resource.LogicalID, "")
}
