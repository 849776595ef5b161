package quarantine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// Verdict is what a router said of a tenant.
type Verdict struct {
	poison.Verdict
	Environment string    // which router: the name of its log stream on Lambda
	At          time.Time // when
}

// Message is the msg of a verdict's line in a router's log.
const Message = "poison verdict"

// maxLine is how long a verdict's line may be. One of a tenant with the longest id and shards with the longest has
// less than 3 kB.
const maxLine = 16 << 10

// ErrLine means that a line is no verdict's of the cell.
var ErrLine = errors.New("not a line of a verdict")

// line is a verdict's as package telemetry writes it.
type line struct {
	AWS     json.RawMessage `json:"_aws"`
	Time    *time.Time      `json:"time"`
	Level   string          `json:"level"`
	Msg     string          `json:"msg"`
	Service string          `json:"service"`
	Cell    string          `json:"cell"`
	Tenant  string          `json:"tenant"`
	Shards  []string        `json:"shards"`
	Downs   int             `json:"downs"`
	Chance  *float64        `json:"chance"`
	Firm    bool            `json:"firm"`
	Until   time.Time       `json:"until"`
	Repeats int             `json:"repeats"`
	Count   int             `json:"PoisonVerdicts"`
}

// ParseLine reads a verdict of a cell from a line of a router's log; Environment is for the caller to set. ErrLine
// when it is anything else.
func ParseLine(text []byte, service, cell string) (Verdict, error) {
	no := func(format string, args ...any) (Verdict, error) {
		return Verdict{}, fmt.Errorf("%w: %s", ErrLine, fmt.Sprintf(format, args...))
	}
	if len(text) > maxLine || !utf8.Valid(text) {
		return no("%d bytes, of which %d are the most, in UTF-8", len(text), maxLine)
	}
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return no("%v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return no("something follows it")
	}
	switch {
	case l.Msg != Message:
		return no("msg is %q", l.Msg)
	case l.Service != service || l.Cell != cell:
		return no("it is of cell %q of %q", l.Cell, l.Service)
	case !directory.ValidTenant(l.Tenant):
		return no("it names no tenant")
	case l.Chance == nil || !(*l.Chance >= 0 && *l.Chance <= 1):
		return no("it has no chance from 0 to 1")
	case l.Time == nil || l.Time.IsZero() || l.Until.IsZero():
		return no("it does not say when")
	case l.Downs < 0 || l.Repeats < 0 || l.Downs > math.MaxInt32 || l.Repeats > math.MaxInt32:
		return no("downs %d, repeats %d", l.Downs, l.Repeats)
	case len(l.Shards) > maxShards:
		return no("%d shards", len(l.Shards))
	}
	for _, s := range l.Shards {
		if s == "" || len(s) > maxShardID || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return no("shard %q", s)
		}
	}
	return Verdict{At: l.Time.UTC(), Verdict: poison.Verdict{
		Tenant: l.Tenant, Shards: l.Shards, Downs: l.Downs, Chance: *l.Chance, Firm: l.Firm, Until: l.Until.UTC(), Repeats: l.Repeats,
	}}, nil
}
