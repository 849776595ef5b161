package boltdir

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
)

// escape appends s so that the order of bytes is that of the strings, whatever follows: 0x00 becomes
// 0x00 0xff, and 0x00 0x01 is the end.
func escape(b []byte, s string) []byte {
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 1)
}

var errKey = fmt.Errorf("%w: a key makes no sense", boltfile.ErrDamaged)

// unescape reads what escape wrote, and returns what follows it.
func unescape(b []byte) (s string, rest []byte, err error) {
	var text []byte
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] != 0:
			text = append(text, b[i])
		case b[i+1] == 1:
			return string(text), b[i+2:], nil
		case b[i+1] == 0xff:
			text = append(text, 0)
			i++
		default:
			return "", nil, errKey
		}
	}
	return "", nil, errKey
}

// key is a record's key in the bucket of its family.
func key(k directory.Key) []byte {
	return append(escape(nil, k.Part), k.Sort[len(k.Family()):]...)
}

func unkey(family string, b []byte) (directory.Key, error) {
	part, rest, err := unescape(b)
	return directory.Key{Part: part, Sort: family + string(rest)}, err
}

func get(tx *bbolt.Tx, k directory.Key) (directory.Record, error) {
	bucket := tx.Bucket(recordsBucket(k.Family()))
	if bucket == nil {
		return directory.Record{Key: k}, nil
	}
	value := bucket.Get(key(k))
	if value == nil {
		return directory.Record{Key: k}, nil
	}
	return decode(k, value)
}

// put writes a record with its indexes, and its news when the version rose.
func put(tx *bbolt.Tx, before, after directory.Record) error {
	bucket, err := tx.CreateBucketIfNotExists(recordsBucket(after.Family()))
	if err != nil {
		return err
	}
	if err := bucket.Put(key(after.Key), encode(after)); err != nil {
		return err
	}
	for i, name := range indexBuckets {
		old, now := before.Index[i], after.Index[i]
		if old == now {
			continue
		}
		if old != "" {
			err = tx.Bucket(name).Delete(indexKey(old, after.Key))
		}
		if err == nil && now != "" {
			err = tx.Bucket(name).Put(indexKey(now, after.Key), nil)
		}
		if err != nil {
			return err
		}
	}
	if before.Version == after.Version || !directory.Announced(after.Key) {
		return nil
	}
	return announce(tx, after.Key)
}

func indexKey(value string, k directory.Key) []byte {
	return append(escape(escape(nil, value), k.Family()), key(k)...)
}

// feedLength is how many changes the feed keeps at least; feedTrim is how many more it lets come before
// it drops the oldest.
const (
	feedLength = 1 << 16
	feedTrim   = 1 << 10
)

func announce(tx *bbolt.Tx, k directory.Key) error {
	bucket := tx.Bucket(feedBucket)
	number, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	err = bucket.Put(binary.BigEndian.AppendUint64(nil, number), append(escape(nil, k.Family()), key(k)...))
	if err != nil || number%feedTrim != 0 || number <= feedLength {
		return err
	}
	oldest := binary.BigEndian.AppendUint64(nil, number-feedLength)
	var drop [][]byte
	cursor := bucket.Cursor()
	for key, _ := cursor.First(); key != nil && bytes.Compare(key, oldest) < 0; key, _ = cursor.Next() {
		drop = append(drop, bytes.Clone(key))
	}
	for _, key := range drop {
		if err := bucket.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// changed is the record that a line of the feed tells of, as it stands now.
func changed(tx *bbolt.Tx, line []byte) (directory.Record, error) {
	family, rest, err := unescape(line)
	if err != nil {
		return directory.Record{}, err
	}
	k, err := unkey(family, rest)
	if err != nil {
		return directory.Record{}, err
	}
	return get(tx, k)
}

// encode writes a record's value: the version, the operation, both index values, the counters, and the
// body to the end. Numbers are varints, and strings begin with their length.
func encode(r directory.Record) []byte {
	b := make([]byte, 0, len(r.Body)+len(r.Operation)+len(r.Index[0])+len(r.Index[1])+16+32*len(r.Counters))
	b = binary.AppendUvarint(b, r.Version)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(r.Operation)
	text(r.Index[0])
	text(r.Index[1])
	b = binary.AppendUvarint(b, uint64(len(r.Counters)))
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		text(name)
		b = binary.AppendVarint(b, r.Counters[name])
	}
	return append(b, r.Body...)
}

// maxValue is more than any value has, in bytes. What a damaged page says to be longer is not copied.
const maxValue = 2 * directory.MaxRecord

// decode reads what encode wrote, and copies it: bbolt's memory is gone after the transaction.
func decode(k directory.Key, value []byte) (directory.Record, error) {
	if len(value) > maxValue {
		return directory.Record{}, fmt.Errorf("%w: its record %v has %d bytes", boltfile.ErrDamaged, k, len(value))
	}
	p := parser{rest: value}
	r := directory.Record{Key: k, Version: p.number(), Operation: p.text()}
	r.Index = [2]string{p.text(), p.text()}
	switch n := p.number(); {
	case n > uint64(len(p.rest)): // each takes two bytes at least
		p.bad = true
	case n > 0:
		r.Counters = make(map[string]int64, n)
		for range n {
			name := p.text()
			r.Counters[name] = p.signed()
		}
	}
	if p.bad || r.Version == 0 {
		return directory.Record{}, fmt.Errorf("%w: its record %v makes no sense", boltfile.ErrDamaged, k)
	}
	r.Body = bytes.Clone(p.rest)
	return r, nil
}

// parser reads on until the first thing that is not there.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	p.skip(size)
	return n
}

func (p *parser) signed() int64 {
	n, size := binary.Varint(p.rest)
	p.skip(size)
	return n
}

func (p *parser) skip(size int) {
	if size <= 0 {
		p.bad, size = true, len(p.rest)
	}
	p.rest = p.rest[size:]
}

func (p *parser) text() string {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}
