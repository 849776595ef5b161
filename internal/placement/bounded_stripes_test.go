package placement

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestBoundedRefuses(t *testing.T) {
	uneven := append(shape{4, 11, 4, 2}.shards(), Shard{ID: "one more", Zone: "zone-002", Weight: 1})
	for _, c := range []struct {
		name   string
		shards []Shard
		k, t   int
		want   error
		text   string // that the error says
	}{
		{"not a prime power", shape{4, 12, 0, 0}.shards(), 4, 2, ErrStripes, "give each zone 11 or 13"},
		{"q below the stripes", shape{4, 3, 0, 0}.shards(), 4, 2, ErrStripes, "give each zone 4"},
		{"uneven zones", uneven, 4, 2, ErrStripes, `zone "zone-000" has 11 shards, zone "zone-002" has 12`},
		{"uneven zones, advice", uneven, 4, 2, ErrStripes, "give each zone 11 or 13"},
		{"zones that two stripes do not share", shape{3, 15, 0, 0}.shards(), 6, 1, ErrStripes, "give each zone 14 or 16"},
		{"stripes of six", shape{2, 12, 0, 0}.shards(), 4, 1, ErrStripes, "give each zone 10 or 14"},
		{"one shard a zone", shape{3, 1, 0, 0}.shards(), 1, 0, ErrStripes, "give each zone 3"},
		{"zones beyond help", shape{300, 2, 0, 0}.shards(), 2, 1, ErrStripes, "no number of shards"},
		{"k unset", shape{4, 11, 0, 0}.shards(), 0, 0, ErrPerTenant, "want 1 to 44"},
		{"k negative", shape{4, 11, 0, 0}.shards(), -1, 0, ErrPerTenant, "want 1 to 44"},
		{"k above n", shape{4, 11, 0, 0}.shards(), 45, 2, ErrPerTenant, "want 1 to 44"},
		{"k beyond all numbers", shape{4, 11, 0, 0}.shards(), math.MaxInt, 2, ErrPerTenant, "want 1 to 44"},
		{"t negative", shape{4, 11, 0, 0}.shards(), 4, -1, ErrMaxShared, "want 0 to 3"},
		{"t says nothing", shape{4, 11, 0, 0}.shards(), 4, 4, ErrMaxShared, "want 0 to 3"},
		{"2^64 slots", shape{16, 16, 0, 0}.shards(), 16, 15, ErrMaxShared, "want 0 to 14"},
		{"2^63 slots", shape{8, 512, 0, 0}.shards(), 8, 6, ErrMaxShared, "want 0 to 5"},
	} {
		p, err := New(Config{Scheme: BoundedV1, Key: []byte("k"), Shards: c.shards, MaxShared: c.t, MaxPerTenant: c.k})
		if !errors.Is(err, c.want) || p != nil || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, %v; want %v with %q", c.name, p, err, c.want, c.text)
		}
	}
	heavy := shape{4, 11, 4, 2}.shards()
	heavy[7].Weight = 2
	if _, err := New(Config{Scheme: BoundedV1, Key: []byte("k"), Shards: heavy, MaxShared: 2, MaxPerTenant: 4}); !errors.Is(err, ErrWeight) {
		t.Errorf("a weight of 2: %v", err)
	}
	p := shape{4, 11, 3, 2}.placer(t, "k")
	for _, k := range []int{-1, 0, 5} {
		if _, err := p.PerTenant(k); !errors.Is(err, ErrPerTenant) {
			t.Errorf("k=%d: %v", k, err)
		}
	}
}

// The advice holds: the numbers it gives fit, and none between them.
func TestStripesAdvice(t *testing.T) {
	for zones := 1; zones <= 6; zones++ {
		for k := 1; k <= 2*zones; k++ {
			for size := (k + zones - 1) / zones; size <= 40; size++ {
				s := shape{zones: zones, size: size, k: k}
				_, err := newStriping(s.shards(), k)
				if q := s.q(); (err == nil) != (isPrimePower(q) && q*s.stripes() == zones*size && q >= s.stripes()) {
					t.Fatalf("%s: %v", s, err)
				}
				if err == nil {
					continue
				}
				_, advice, _ := strings.Cut(err.Error(), "give each zone ")
				var near []int
				for _, word := range strings.Split(advice, " or ") {
					var n int
					if _, err := fmt.Sscan(word, &n); err != nil {
						t.Fatalf("%s: %v: %v", s, advice, err)
					}
					near = append(near, n)
					if _, err := newStriping(shape{zones, n, k, 0}.shards(), k); err != nil {
						t.Fatalf("%s: advised %d: %v", s, n, err)
					}
				}
				for n := size; n < near[len(near)-1]; n++ {
					if _, err := newStriping(shape{zones, n, k, 0}.shards(), k); err == nil {
						t.Fatalf("%s: advised %s, and %d would do", s, advice, n)
					}
				}
			}
		}
	}
}
