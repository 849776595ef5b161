package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// mute is a holder some of whose shards do not answer whether they hold a tenant.
type mute struct {
	directory.Holder
	why func(ctx context.Context, shard string) error
}

func (m mute) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	if err := m.why(ctx, shard); err != nil {
		return directory.Holding{}, false, err
	}
	return m.Holder.Held(ctx, cell, shard, tenant)
}

// TestTenantShowWithSilentShards: a shard that cannot be asked is unknown, and everything else is told.
func TestTenantShowWithSilentShards(t *testing.T) {
	_, d, _, _ := migrating(t, 1, func(int) error { return nil })
	whole, err := d.show(t.Context(), "t000")
	if err != nil || len(whole.Subset) != 2 || len(whole.Held) != 2 || whole.Silent != nil || whole.incomplete() != nil {
		t.Fatalf("%+v, %v", whole, err)
	}
	silent := whole.Subset[1].Shard
	hears := d.holder
	d.holder = mute{hears, func(_ context.Context, shard string) error {
		if shard == silent {
			return errors.New("table not found\x1b[2J")
		}
		return nil
	}}
	s, err := d.show(t.Context(), "t000")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Silent) != 1 || s.Silent[0].Shard != silent || !strings.Contains(s.Silent[0].Why, "table not found") {
		t.Errorf("silent: %+v", s.Silent)
	}
	if len(s.Held) != 1 || s.Held[0].Shard != whole.Subset[0].Shard {
		t.Errorf("held by %+v", s.Held)
	}
	if a, b := s.Subset[0], s.Subset[1]; a.Holds == nil || !*a.Holds || b.Holds != nil {
		t.Errorf("subset %+v", s.Subset)
	}
	if len(s.History) == 0 || s.Entry.Tenant != "t000" {
		t.Errorf("the rest is not shown: %+v", s)
	}
	if err := s.incomplete(); statusOf(err) != ExitFailed || !strings.Contains(err.Error(), "1 shard could not be asked") {
		t.Errorf("status %d, %v", statusOf(err), err)
	}
	var out bytes.Buffer
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"unknown whether it holds it", silent + `: "ask shard eu-1/` + silent + `: table not found`, "came active"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("a shard's error reaches the terminal: %q", out.String())
	}
	text, err := json.Marshal(s)
	if err != nil || !bytes.Contains(text, []byte(`"holds":null`)) || !bytes.Contains(text, []byte(`"heldUnknown":[{"shard":"`+silent+`"`)) {
		t.Errorf("%s, %v", text, err)
	}

	// Nobody answers: the directory's own part is told all the same.
	d.holder = mute{hears, func(context.Context, string) error { return errors.New("down") }}
	if s, err = d.show(t.Context(), "t000"); err != nil || len(s.Silent) != 6 || len(s.Held) != 0 || len(s.Subset) != 2 {
		t.Errorf("all silent: %+v, %v", s, err)
	}
	out.Reset()
	if err := s.print(&out); err != nil || !strings.Contains(out.String(), "nobody that answered") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	// Credentials of another account are wrong use, which is said once.
	d.holder = mute{hears, func(context.Context, string) error { return usagef("sign in to account 2") }}
	if _, err = d.show(t.Context(), "t000"); statusOf(err) != ExitUsage {
		t.Errorf("wrong use: status %d, %v", statusOf(err), err)
	}
}

// TestTenantShowWaitsForNoShard: one that hangs is given up, and an interrupt ends the command.
func TestTenantShowWaitsForNoShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, _, _ := migrating(t, 1, func(int) error { return nil })
		d.holder = mute{d.holder, func(ctx context.Context, shard string) error {
			if shard != "s3" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		begun := time.Now()
		s, err := d.show(t.Context(), "t000")
		if took := time.Since(begun); err != nil || took != askedFor { // by the bubble's clock
			t.Errorf("after %v: %v", took, err)
		}
		if silent := s.Silent; len(silent) != 1 || silent[0].Shard != "s3" || slices.ContainsFunc(s.Held, func(h holdingShard) bool { return h.Shard == "s3" }) {
			t.Errorf("silent: %+v", silent)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.show(ctx, "t000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
