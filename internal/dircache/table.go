package dircache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// parts is how many parts a table has, each with a lock of its own for those who write.
const parts = 64

// table maps tenants to records, within a bound on its memory. Reading takes no lock and no memory: routers
// read with every request. A well-kept cache would have done but for this: hashicorp/golang-lru takes one
// lock for each hit; otter and ristretto keep their order in the background, which a frozen Lambda
// environment has not, and ristretto may drop what it was told to keep.
//
// What is thrown away is chosen by second chance (CLOCK): a hand goes round, passes over who was asked for
// since it last came by, and takes the next.
type table struct {
	seed  maphash.Seed
	limit int64 // bytes of one part
	parts [parts]part
}

// part is an open-addressed hash table with linear probing. slots is replaced as a whole when it grows. A
// reader that meets a change half done may miss a record, and looks again under the lock.
type part struct {
	slots atomic.Pointer[[]slot]

	mu    sync.Mutex
	n     int   // records
	bytes int64 // by record.weight
	hand  int
	_     [64]byte // the next part's words are in another cache line
}

type slot = atomic.Pointer[record]

// leastSlots is the size of a part's first slots; sizes are powers of two.
const leastSlots = 8

// full says whether n records are too many for so many slots: probing for who is not there takes 4 steps on
// average at 5/8 (Knuth, The Art of Computer Programming, section 6.4).
func full(n, slots int) bool { return n*8 > slots*5 }

// newTable makes a table that takes about so many bytes at most, and keeps one record in each part however
// large that is.
func newTable(bytes int64) *table {
	t := &table{seed: maphash.MakeSeed(), limit: bytes / parts}
	for i := range t.parts {
		slots := make([]slot, leastSlots)
		t.parts[i].slots.Store(&slots)
	}
	return t
}

func (t *table) place(tenant string) (*part, uint64) {
	h := maphash.String(t.seed, tenant)
	return &t.parts[h%parts], h
}

// at is where in so many slots the search for a hash begins. Its lowest bits chose the part.
func at(h uint64, slots int) int { return int(h/parts) & (slots - 1) }

// part is the number of a tenant's part.
func (t *table) part(tenant string) int { return int(maphash.String(t.seed, tenant) % parts) }

// get returns a tenant's record, nil when there is none or when it is just being changed.
func (t *table) get(tenant string) *record {
	p, h := t.place(tenant)
	return find(*p.slots.Load(), tenant, h)
}

func find(slots []slot, tenant string, h uint64) *record {
	first := at(h, len(slots))
	for i := range slots { // ends at an empty slot; the bound is for a reader whose slots change under it
		r := slots[(first+i)&(len(slots)-1)].Load()
		if r == nil || r.hash == h && r.tenant == tenant {
			return r
		}
	}
	return nil
}

// certain is get of a table that is not being changed.
func (t *table) certain(tenant string) *record {
	p, h := t.place(tenant)
	p.mu.Lock()
	defer p.mu.Unlock()
	return find(*p.slots.Load(), tenant, h)
}

// put replaces the record of r's tenant, or adds it, and throws away as many others as it takes.
func (t *table) put(r *record) {
	p, h := t.place(r.tenant)
	r.hash = h
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(r)
	for p.bytes > t.limit && p.n > 1 {
		p.evict(r)
	}
}

// remove forgets a tenant.
func (t *table) remove(tenant string) {
	p, h := t.place(tenant)
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := *p.slots.Load()
	for i := at(h, len(slots)); ; i = (i + 1) & (len(slots) - 1) {
		switch r := slots[i].Load(); {
		case r == nil:
			return
		case r.tenant == tenant:
			p.clear(slots, i)
			return
		}
	}
}

func (p *part) add(r *record) {
	slots := *p.slots.Load()
	for i := at(r.hash, len(slots)); ; i = (i + 1) & (len(slots) - 1) {
		old := slots[i].Load()
		switch {
		case old == nil:
			slots[i].Store(r)
			p.n++
			p.bytes += r.weight()
			if full(p.n, len(slots)) {
				p.grow(slots)
			}
			return
		case old.tenant == r.tenant:
			slots[i].Store(r)
			p.bytes += r.weight() - old.weight()
			return
		}
	}
}

func (p *part) grow(slots []slot) {
	larger := make([]slot, 2*len(slots))
	for i := range slots {
		r := slots[i].Load()
		if r == nil {
			continue
		}
		to := at(r.hash, len(larger))
		for larger[to].Load() != nil {
			to = (to + 1) & (len(larger) - 1)
		}
		larger[to].Store(r)
	}
	p.slots.Store(&larger)
}

// evict throws away one record other than but. It ends: a second round finds nobody marked, unless readers
// mark them meanwhile, which the third round does not wait for.
func (p *part) evict(but *record) {
	slots := *p.slots.Load()
	for step := 0; ; step++ {
		p.hand = (p.hand + 1) & (len(slots) - 1)
		r := slots[p.hand].Load()
		switch {
		case r == nil || r == but:
		case step < 2*len(slots) && r.used.Load():
			r.used.Store(false)
		default:
			p.clear(slots, p.hand)
			return
		}
	}
}

// clear empties a slot and moves up those behind it that could not be found any more (Knuth, section 6.4,
// algorithm R). They are where they were until they are where they belong.
func (p *part) clear(slots []slot, i int) {
	mask := len(slots) - 1
	p.n--
	p.bytes -= slots[i].Load().weight()
	for j := (i + 1) & mask; ; j = (j + 1) & mask {
		r := slots[j].Load()
		if r == nil {
			break
		}
		if (j-at(r.hash, len(slots)))&mask >= (j-i)&mask { // its way from where it belongs passes over i
			slots[i].Store(r)
			i = j
		}
	}
	slots[i].Store(nil)
}

// size is how many records there are, and their bytes.
func (t *table) size() (n int, bytes int64) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		n, bytes = n+p.n, bytes+p.bytes
		p.mu.Unlock()
	}
	return n, bytes
}
