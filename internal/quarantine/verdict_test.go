package quarantine

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// written is a line as package telemetry writes it, which has a test of that.
const written = `{"_aws":{"Timestamp":1},"time":"2026-11-30T12:00:00.123Z","level":"WARN","msg":"poison verdict","service":"orders","cell":"eu-1",` +
	`"tenant":"acme","shards":["s01","s02"],"downs":4,"chance":1e-9,"firm":true,"until":"2026-11-30T12:05:00.123Z","repeats":1,"PoisonVerdicts":1}`

func TestParseLine(t *testing.T) {
	v, err := ParseLine([]byte(written+"\n"), "orders", "eu-1")
	if err != nil || v.Tenant != "acme" || len(v.Shards) != 2 || v.Downs != 4 || v.Chance != 1e-9 || !v.Firm || v.Repeats != 1 ||
		!v.At.Equal(time.Date(2026, 11, 30, 12, 0, 0, 123e6, time.UTC)) || v.Until.Sub(v.At) != 5*time.Minute {
		t.Errorf("%+v, %v", v, err)
	}
	for _, c := range [][2]string{
		{`"poison verdict"`, `"request"`}, {`"orders"`, `"others"`}, {`"eu-1"`, `"eu-2"`}, {`"acme"`, `""`}, {`"acme"`, `"` + strings.Repeat("a", 129) + `"`},
		{`"acme"`, `7`}, {`1e-9`, `-1`}, {`1e-9`, `2`}, {`1e-9`, `1e999`}, {`"chance":1e-9,`, ``}, {`:4`, `:-4`}, {`:4`, `:4.5`}, {`"repeats":1`, `"repeats":-1`},
		{`2026-11-30T12:00:00.123Z`, `yesterday`}, {`"time":"2026-11-30T12:00:00.123Z",`, ``}, {`"s01"`, `"S 01"`}, {`"s01"`, `""`},
		{`"s01"`, strings.Repeat(`"s",`, 8) + `"s"`}, {`"firm":true`, `"firm":"true"`}, {`"firm"`, `"form"`}, {`PoisonVerdicts":1}`, `PoisonVerdicts":1}{}`},
		{`"acme"`, "\"\xff\""}, {`"level":"WARN"`, `"level":"` + strings.Repeat("W", maxLine) + `"`},
	} {
		if !strings.Contains(written, c[0]) {
			t.Fatalf("%s is not in the line", c[0])
		}
		if v, err := ParseLine([]byte(strings.Replace(written, c[0], c[1], 1)), "orders", "eu-1"); !errors.Is(err, ErrLine) {
			t.Errorf("%s for %s: %+v, %v", c[1], c[0], v, err)
		}
	}
}

// FuzzParseLine: what is taken for a verdict is in bounds, whatever a log holds.
func FuzzParseLine(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte(`{"msg":"poison verdict","service":"orders","cell":"eu-1","tenant":"\u0000","chance":0,"time":"0001-01-01T00:00:01Z","until":"9999-01-01T00:00:01Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseLine(text, "orders", "eu-1")
		if err != nil {
			if !errors.Is(err, ErrLine) {
				t.Error(err)
			}
			return
		}
		if v.Tenant == "" || len(v.Tenant) > 128 || len(v.Shards) > maxShards || !(v.Chance >= 0 && v.Chance <= 1) || v.Repeats < 0 || v.At.IsZero() {
			t.Errorf("%+v", v)
		}
		// Whatever it says, the note stays one.
		s := &state{}
		if x, anew := s.hear(v, begin); anew && (x.Until.After(begin.Add(longestHold)) || x.Until.Before(begin.Add(-window))) {
			t.Errorf("%+v is held until %v", v, x.Until)
		}
	})
}
