package directory

import (
	"bytes"
	"strings"
	"testing"
)

// What a file of any content gives is either refused, or written and read back as it was.
func fuzzEntries(f *testing.F, format FileFormat) {
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for line, err := range ReadEntries(strings.NewReader(text), format) {
			if err == nil && (line.Number <= last || line.Number > strings.Count(text, "\n")+1) {
				t.Errorf("line %d after %d", line.Number, last)
			}
			last = line.Number
			if err != nil || line.Fault != nil {
				continue
			}
			e := line.Entry
			if e.Operation = "op"; Check(e) != nil {
				continue
			}
			for _, as := range []FileFormat{CSV, JSONLines} {
				var file bytes.Buffer
				w, err := newEncoder(&file, as, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.write(e); err == ErrLineBreak && as == CSV {
					continue
				} else if err != nil {
					t.Fatalf("%+v cannot be written as %s: %v", e, as, err)
				}
				if err := w.flush(); err != nil {
					t.Fatal(err)
				}
				n := 0
				for again, err := range ReadEntries(&file, as) {
					if n++; err != nil || again.Fault != nil || !again.Entry.equal(e) {
						t.Errorf("%+v came back from %s as %+v, %v, %v", e, as, again.Entry, again.Fault, err)
					}
				}
				if n != 1 {
					t.Errorf("%+v came back from %s as %d lines", e, as, n)
				}
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add("tenant,cell\na,b\n")
	f.Add("\ufefftenant,cell,state,epoch,size,pins,topology,slot,load,internal,created,updated,operation\r\n" +
		"\"a,\"\"b\",eu-1,suspended,7,whale,s01 s02,3,9,1.5,true,2026-11-30T10:20:30Z,2026-11-30T10:20:30.5+02:00,op\r\n")
	f.Add("tenant,cell\n\"open,eu-1\n\x00,eu-1\n")
	fuzzEntries(f, CSV)
}

func FuzzJSONLines(f *testing.F) {
	f.Add(`{"tenant":"a","cell":"eu-1"}`)
	f.Add(`{"tenant":"a\ud83d\udd12\u0000\n\\","cell":"eu-1","state":"suspended","epoch":7,"size":"whale","pins":["s01"],"topology":3,"slot":9,"load":1.5,"internal":true,"created":"2026-11-30T10:20:30+02:00","updated":"2026-11-30T10:20:30Z","operation":"op"}` + "\r\n{}\n")
	f.Add(`{"tenant":"\ud800","cell":"eu-1","pins":null}`)
	fuzzEntries(f, JSONLines)
}
