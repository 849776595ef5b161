package main

import "testing"

// times asks only for tenants who have a slot, and has a ratio of one for the first scheme.
func TestTimes(t *testing.T) {
	var keep []byte
	made := func(slots, allocate int) *subject {
		return &subject{slots: slots, lookup: func(tenant int) {
			if slots > 0 && tenant >= slots {
				t.Fatalf("tenant %d of %d slots", tenant, slots)
			}
			for range 100 {
				keep = make([]byte, allocate)
			}
		}}
	}
	got := times([]*subject{made(0, 64), made(3, 128)}, 3)
	_ = keep
	if got[0].ratio != 1 || got[0].ns <= 0 || got[1].ns <= 0 {
		t.Errorf("%+v", got)
	}
	if got[0].bytes < 6400 || got[1].bytes < 12800 {
		t.Errorf("%+v, want 100 times 64 and 128 bytes", got)
	}
}
