package rollout

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

// FuzzDecode: whatever is read as a state is written as it was, and no event makes Next panic on it.
func FuzzDecode(f *testing.F) {
	for _, sh := range []shape{{[][]int{{1}}, 1, true, false}, {[][]int{{1}, {2, 1}}, 2, false, false}} {
		x := newExplorer(sh)
		n := x.start()
		for i := range 60 {
			if i%5 == 0 {
				text, err := json.Marshal(n.s)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(text)
			}
			events := n.possible(true)
			for j := range events {
				if after, _, err := x.after(&n, events[(i*7+j)%len(events)]); err == nil {
					n = after
					break
				}
			}
		}
	}
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"schema":"cellwall.rollout/v2"}`, `{"schema":"cellwall.rollout/v1","cells":[{"stage":-1}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Skip() // a year beyond 9999
		}
		same, err := Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if twice, _ := json.Marshal(same); string(twice) != string(again) {
			t.Fatalf("%s\nthen\n%s", again, twice)
		}
		n := node{s: same}
		Due(same)
		for _, e := range n.possible(true) {
			after, _, err := Next(same, e)
			if err == nil {
				if err := after.check(); err != nil {
					t.Fatalf("%v after %+v", err, e)
				}
			} else if !reflect.DeepEqual(after, same) {
				t.Fatalf("%v, and the state was changed", err)
			}
		}
		_, _, _ = Next(same, Event{Kind: Looked, Fencing: same.Fencing, At: time.Unix(0, 0), Cell: same.Cells[0].Name})
	})
}
