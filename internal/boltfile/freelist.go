package boltfile

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Each commit of bbolt's frees the pages of the list of free pages that the last one wrote, as many as the
// list's first page says, and takes new pages from the list. It looks at neither: a first page that says four
// billion has it fill the memory, and one that says too many, or a list that names pages which are in use, has
// it overwrite what is there. So the list is looked at when a file is opened, and its first page before each
// commit.

// Where things are in a file of bbolt's, in bytes, all in the machine's own order: within a page, its number, type, count and
// overflow; behind them in a head, the list's page, how many pages there are, and the transaction.
const (
	atPage, atKind, atCount, atOverflow, pageHeader = 0, 8, 10, 12, 16

	atFreelist, atPages, atTransaction, headSize = pageHeader + 32, pageHeader + 40, pageHeader + 48, pageHeader + 56

	freelistKind = 0x10
	idSize       = 8
	manyIDs      = 0xFFFF // a count that says that the first id is the count
)

var order = binary.NativeEndian

// freelist is the first page of the list of free pages.
type freelist struct {
	page     uint64 // its number
	count    uint64 // ids in the list
	first    uint64 // id at which they begin: behind the count, when that is one
	overflow uint64 // pages that it goes on for
	pages    uint64 // in use or free, in the whole file
}

// readFreelist finds the list that the transaction of that number left, and refuses one that cannot be it.
func readFreelist(file io.ReaderAt, pageSize int, transaction uint64) (freelist, error) {
	var l freelist
	for head := range int64(heads) {
		b := make([]byte, headSize)
		if _, err := file.ReadAt(b, head*int64(pageSize)); err != nil {
			return l, fmt.Errorf("%w: read its head: %w", ErrDamaged, err)
		}
		if order.Uint64(b[atTransaction:]) == transaction {
			l.page, l.pages = order.Uint64(b[atFreelist:]), order.Uint64(b[atPages:])
		}
	}
	if l.page < heads || l.page >= l.pages {
		return l, fmt.Errorf("%w: it has %d pages, and the list of free ones is to be page %d", ErrDamaged, l.pages, l.page)
	}
	b := make([]byte, pageHeader+idSize)
	if _, err := file.ReadAt(b, int64(l.page)*int64(pageSize)); err != nil {
		return l, fmt.Errorf("%w: read the list of free pages: %w", ErrDamaged, err)
	}
	l.count, l.overflow = uint64(order.Uint16(b[atCount:])), uint64(order.Uint32(b[atOverflow:]))
	if l.count == manyIDs {
		l.count, l.first = order.Uint64(b[pageHeader:]), 1
	}
	if page, kind := order.Uint64(b[atPage:]), order.Uint16(b[atKind:]); page != l.page || kind != freelistKind {
		return l, fmt.Errorf("%w: page %d is to be the list of free pages, and says that it is page %d of type %#x", ErrDamaged, l.page, page, kind)
	}
	// The pages were counted before they were taken themselves, perhaps from the list.
	least, most := l.overflowFor(l.count, pageSize), l.overflowFor(l.count+l.overflow+1, pageSize)
	if l.count >= l.pages || l.overflow < least || l.overflow > most {
		return l, fmt.Errorf("%w: the list of free pages is to have %d of %d, on %d", ErrDamaged, l.count, l.pages, l.overflow+1)
	}
	return l, nil
}

func (l freelist) overflowFor(ids uint64, pageSize int) uint64 {
	if ids >= manyIDs {
		ids++
	}
	return (pageHeader + idSize*ids) / uint64(pageSize)
}

// check refuses a list that names a page twice, or one that cannot be free.
func (l freelist) check(file io.ReaderAt, pageSize int) error {
	ids := io.NewSectionReader(file, int64(l.page)*int64(pageSize)+pageHeader+int64(idSize*l.first), int64(idSize*l.count))
	b := make([]byte, pageSize)
	for last := uint64(heads - 1); ; {
		n, err := io.ReadFull(ids, b)
		for at := 0; at+idSize <= n; at += idSize {
			id := order.Uint64(b[at:])
			if id <= last || id >= l.pages || id >= l.page && id <= l.page+l.overflow {
				return fmt.Errorf("%w: of its %d pages, page %d after %d is to be free", ErrDamaged, l.pages, id, last)
			}
			last = id
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return fmt.Errorf("%w: read the list of free pages: %w", ErrDamaged, err)
		}
	}
}
