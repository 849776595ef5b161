package placement

import "errors"

type bounded struct{}

func newBounded(m *mac, shards []Shard, maxShared, maxPerTenant int) (bounded, error) {
	return bounded{}, errors.New("bounded/v1 is not built yet")
}

// stripes is the largest k.
func (b *bounded) stripes() int { return 0 }

// capacity is the number of slots.
func (b *bounded) capacity() uint64 { return 0 }

// append appends the k shards of slot 1 to capacity, one of each of the first k stripes. ErrNoSlot or
// *FullError with dst as it was.
func (b *bounded) append(dst []int, slot uint64, k int) ([]int, error) {
	return dst, ErrNoSlot
}
