package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// damaged has each kind of record come as none was written, and sees every call that needs it refuse.
func damaged(t *testing.T, home directory.Home) {
	s := journal.New(home)
	l := take(t, s, "ann", at(0))
	r := lead(t, s, l, "gone")
	write(t, s, l, then(r, l, rollout.Abort, ""))
	r = lead(t, s, l, "r")
	r = write(t, s, l, then(r, l, rollout.Abort, ""))
	is(t, "wish", s.Wish(t.Context(), service, wish("a", 0)), nil)
	is(t, "wish", s.Wish(t.Context(), service, wish("b", 0)), nil)
	is(t, "answer", s.Answer(t.Context(), service, wish("a", 0)), nil)
	o, err := s.Take(t.Context(), "others", "ann", at(0), ttl)
	is(t, "take", err, nil)
	write(t, s, o, begunOf(spec("others", "r", 1, 1)))
	next := then(r, l, rollout.Rollback, "")

	// What is changed of all that a home gives.
	var where func(directory.Key) bool
	var how func(*directory.Record)
	met := 0
	bad := &counting{Home: &tampering{home, func(r *directory.Record) {
		if r.Version > 0 && where(r.Key) {
			met++
			how(r)
		}
	}}}
	s = journal.New(bad)
	ctx := t.Context()
	no := func(_ any, err error) error { return err }
	calls := map[string]map[string]func() error{
		"LEASE": {
			"Take":     func() error { return no(s.Take(ctx, service, "bob", at(5), ttl)) },
			"Keep":     func() error { return no(s.Keep(ctx, l, at(0), ttl)) },
			"Free":     func() error { return s.Free(ctx, l) },
			"Holder":   func() error { _, _, err := s.Holder(ctx, service); return err },
			"Append":   func() error { return s.Append(ctx, l, next) },
			"Latest":   func() error { return no(s.Latest(ctx, service)) },
			"Rollouts": func() error { return no(s.Rollouts(ctx, service, 9)) },
		},
		"ROLLOUT": {"Rollouts": func() error { return no(s.Rollouts(ctx, service, 9)) }},
		"STATE": {
			"Latest":   func() error { return no(s.Latest(ctx, service)) },
			"Last":     func() error { return no(s.Last(ctx, service, "r")) },
			"Rollouts": func() error { return no(s.Rollouts(ctx, service, 9)) },
			"Append":   func() error { return s.Append(ctx, l, begun("another")) },
		},
		"EVENT": {
			"Latest": func() error { return no(s.Latest(ctx, service)) },
			"Last":   func() error { return no(s.Last(ctx, service, "r")) },
			"Events": func() error { return no(s.Events(ctx, service, "r", 0, 9)) },
		},
		"WISHES": {
			"Wished": func() error { return no(s.Wished(ctx, service, "r")) },
			"Wish":   func() error { return s.Wish(ctx, service, wish("c", 0)) },
			"Answer": func() error { return s.Answer(ctx, service, wish("b", 0)) },
		},
	}
	refuse := func(family, what string, change func(*directory.Record)) {
		t.Helper()
		how = change
		for name, call := range calls[family] {
			met = 0
			is(t, fmt.Sprintf("%s, %s: %s", family, what, name), call(), journal.ErrDamaged)
			if met == 0 {
				t.Errorf("%s does not read %s", name, family)
			}
		}
	}
	of := func(k directory.Key) bool {
		return strings.HasSuffix(k.Part, "#"+service) || strings.HasSuffix(k.Part, "#"+service+"#r")
	}
	body := func(f func([]byte) []byte) func(*directory.Record) {
		return func(r *directory.Record) { r.Body = f(r.Body) }
	}
	text := func(s string) func(*directory.Record) { return body(func([]byte) []byte { return []byte(s) }) }
	for family := range calls {
		where = func(k directory.Key) bool { return k.Family() == family && of(k) }
		refuse(family, "cut off", body(func(b []byte) []byte { return b[:len(b)/2] }))
		refuse(family, "with more behind it", body(func(b []byte) []byte { return append(bytes.Clone(b), '0') }))
		refuse(family, "with an unknown field", body(func(b []byte) []byte { return append([]byte(`{"more":1,`), b[1:]...) }))
		refuse(family, "of another form", body(func(b []byte) []byte {
			return bytes.Replace(b, []byte("cellwall.journal/v1"), []byte("cellwall.journal/v2"), 1)
		}))
		for _, s := range []string{"", "null", "{}", "[]", "7", "{\"schema\":\"cellwall.journal/v1\"}x", "\xff"} {
			refuse(family, fmt.Sprintf("as %q", s), text(s))
		}
		if family == "STATE" || family == "EVENT" || family == "ROLLOUT" {
			refuse(family, "of another version", func(r *directory.Record) { r.Version += 7 })
		}
		if family != "LEASE" && family != "WISHES" {
			refuse(family, "without what counts", text(`{"schema":"cellwall.journal/v1"}`))
		}
	}
	// Another's record in its place, as it was written.
	read := func(k directory.Key) []byte {
		t.Helper()
		records, err := home.Read(context.WithoutCancel(ctx), directory.Strong, k)
		if err != nil || records[0].Version == 0 {
			t.Fatalf("%v is not there, %v", k, err)
		}
		return records[0].Body
	}
	key := func(part, sort string) directory.Key { return directory.Key{Part: part, Sort: sort} }
	for family, other := range map[string]directory.Key{
		"LEASE": key("SERVICE#others", "LEASE"), "STATE": key("ROLLOUT#"+service+"#gone", "STATE"),
		"EVENT": key("ROLLOUT#"+service+"#gone", "EVENT#00000000000000000001"),
	} {
		where = func(k directory.Key) bool {
			return k.Family() == family && of(k) && !strings.HasSuffix(k.Sort, "#00000000000000000001")
		}
		refuse(family, "another's", text(string(read(other))))
	}
	where = func(k directory.Key) bool { return k.Family() == "WISHES" }
	refuse("WISHES", "of another rollout", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"rollout":"r"`), []byte(`"rollout":"q"`)) }))
	refuse("WISHES", "of what nobody may wish", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"resume"`), []byte(`"taken"`)) }))

	// A record that is gone, of those that others speak of.
	gone := func(r *directory.Record) { *r = directory.Record{Key: r.Key} }
	where, how = func(k directory.Key) bool { return k.Family() == "EVENT" && of(k) }, gone
	is(t, "an event is gone", no(s.Last(ctx, service, "r")), journal.ErrDamaged)
	where = func(k directory.Key) bool { return k.Family() == "STATE" && of(k) }
	is(t, "the state is gone", no(s.Latest(ctx, service)), journal.ErrDamaged)
	is(t, "the state is gone", no(s.Rollouts(ctx, service, 9)), journal.ErrDamaged)

	// Each byte of a state: what is changed is found, or changes nothing.
	where = func(k directory.Key) bool { return k.Family() == "STATE" && of(k) }
	for i := range read(key("ROLLOUT#"+service+"#r", "STATE")) {
		how = func(r *directory.Record) {
			r.Body = bytes.Clone(r.Body)
			r.Body[i] ^= 1
		}
		got, err := s.Last(ctx, service, "r")
		if err != nil {
			is(t, fmt.Sprintf("byte %d", i), err, journal.ErrDamaged)
			continue
		}
		equal(t, fmt.Sprintf("byte %d is another, and the state", i), run.Record{Seq: r.Seq, Event: r.Event, State: r.State}, got)
	}
	if bad.writes > 0 {
		t.Errorf("%d batches were written over damage", bad.writes)
	}
}
