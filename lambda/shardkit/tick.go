package shardkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tick is one time at which a schedule of the fleet (shard.schedules) is due in a shard. No tenant stands behind it, so
// that it reads and writes no tenant's state: it does what is the shard's own, and what concerns a tenant it sends to
// that tenant as a job (Send).
//
// A tick comes at least once: again after an error, and now and then without one. It is told by Name and Due, which are
// the same each time; what must not be done twice is to be remembered by these, or to be a job.
type Tick struct {
	Name  string        // of the schedule
	Shard string        // whose tick it is
	Every time.Duration // between two ticks, whole minutes, up to a day
	// Due is when it was due, in UTC: a whole minute, and Every after the tick before. It is not the time at which
	// the tick is done, which is up to Every later.
	Due time.Time

	dispatch Dispatch
}

// TickPath is where a Consumer asks a service to do a tick, by POST. Mount Guard.Ticks there.
const TickPath = "/cellwall/tick"

// Headers of a request at TickPath, which has HeaderShard, HeaderDeadline and HeaderSecret beside these.
const (
	HeaderTick  = "Cellwall-Tick"  // the schedule's name
	HeaderDue   = "Cellwall-Due"   // when it was due, in RFC 3339 and UTC
	HeaderEvery = "Cellwall-Every" // seconds from one tick to the next, decimal
)

// ErrTick means that something is no tick. It comes wrapped.
var ErrTick = errors.New("not a valid tick")

const (
	maxTick     = 1 << 10        // bytes of the event
	maxTickName = 16             // bytes
	longestTick = 24 * time.Hour // Every
)

// ParseTick reads the event by which a schedule invokes a function; ok is false for any other event. The time in it is
// when the schedule fired, which may be somewhat late: Due is the last time at which it was to fire by then.
func ParseTick(event []byte) (t Tick, ok bool, err error) {
	var e struct {
		Tick *struct {
			Name   string    `json:"name"`
			Shard  string    `json:"shard"`
			Every  int64     `json:"every"`  // seconds
			Offset int64     `json:"offset"` // seconds after midnight UTC, below Every
			Time   time.Time `json:"time"`   // when it fired
		} `json:"tick"`
	}
	if len(event) > maxTick {
		return Tick{}, false, nil
	}
	err = json.Unmarshal(event, &e)
	switch {
	case e.Tick == nil:
		return Tick{}, false, nil
	case err != nil:
		return Tick{}, true, fmt.Errorf("%w: %w", ErrTick, err)
	}
	w := e.Tick
	t = Tick{Name: w.Name, Shard: w.Shard, Every: time.Duration(w.Every) * time.Second}
	if w.Every < 1 || w.Every > int64(longestTick/time.Second) || w.Offset < 0 || w.Offset >= w.Every || w.Time.Unix() < w.Every {
		return Tick{}, true, fmt.Errorf("%w: every %d s from %d s, at %v", ErrTick, w.Every, w.Offset, w.Time)
	}
	// A day is a multiple of Every, so that the times since 1970 are those since midnight.
	since := w.Time.Unix() - w.Offset
	t.Due = time.Unix(since-since%w.Every+w.Offset, 0).UTC()
	return t, true, t.check()
}

func (t Tick) check() error {
	minutes := t.Every / time.Minute
	switch {
	case !validTickName(t.Name):
		return fmt.Errorf("%w: its name is not 1 to 16 lower-case letters, digits and hyphens", ErrTick)
	case t.Shard == "" || len(t.Shard) > maxJobText || !printableASCII(t.Shard):
		return fmt.Errorf("%w: it names no shard", ErrTick)
	case minutes < 1 || t.Every%time.Minute != 0 || longestTick%t.Every != 0:
		return fmt.Errorf("%w: every %v is not at the same minutes of each day", ErrTick, t.Every)
	case t.Due.Unix() <= 0 || t.Due.Unix()%60 != 0 || t.Due.Nanosecond() != 0:
		return fmt.Errorf("%w: due at %v, which is no whole minute", ErrTick, t.Due)
	}
	return nil
}

func validTickName(name string) bool {
	return name != "" && len(name) <= maxTickName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Send has a request made of a tenant of this cell, as Tenant.Send does. The job has no sender. Its id follows from the
// tick, the tenant and the message: however often the tick comes, the same message to the same tenant takes effect
// once. So make the message of Due, and not of the clock.
func (t Tick) Send(ctx context.Context, to string, m Message) (id string, err error) {
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	body := sha256.Sum256(m.Body)
	j := Job{Tenant: to, Hops: 1, Message: m, ID: hashed(strings.Join([]string{
		"tick", t.Shard, t.Name, t.Due.UTC().Format(time.RFC3339), encodeTenant(to), m.Key, m.Method, m.Path, m.Query, hex.EncodeToString(body[:]),
	}, "\n"))}
	if _, err := j.Encode(); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	if t.dispatch == nil {
		return "", fmt.Errorf("send: %w", ErrNoDispatch)
	}
	if err := t.dispatch(ctx, j); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	return j.ID, nil
}

// over says whether the next tick is due, which does what this one was to do.
func (t Tick) over(now time.Time) bool { return !now.Before(t.Due.Add(t.Every)) }

// Ticks returns the handler of the shard's ticks, for POST at TickPath. do does one; after an error or a panic it
// comes again, unless the next is due by then. Requests are refused as Wrap refuses them, but that no tenant is
// looked for: one of a tenant is answered 404, since no client reaches this.
func (g *Guard) Ticks(do func(ctx context.Context, t Tick) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values(HeaderTenant)) > 0 {
			refuse(w, http.StatusNotFound, "there is nothing here")
			return
		}
		r, end := g.admit(w, r)
		if r == nil {
			return
		}
		defer end()
		t, err := parseTickHeaders(r.Header)
		switch {
		case err != nil:
			refuseAsker(w, http.StatusUnauthorized, err.Error())
			return
		case g.c.Shard != "" && t.Shard != g.c.Shard:
			g.c.Log.Warn("tick of another shard", "meant", t.Shard, "here", g.c.Shard)
			refuse(w, http.StatusMisdirectedRequest, "the tick is another shard's")
			return
		}
		t.dispatch = g.c.Dispatch
		if err := do(r.Context(), t); err != nil {
			g.c.Log.Error("tick failed", "schedule", t.Name, "due", t.Due, "err", err)
			refuse(w, http.StatusInternalServerError, "the tick failed")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func parseTickHeaders(h http.Header) (Tick, error) {
	var values [4]string
	for i, name := range []string{HeaderTick, HeaderShard, HeaderEvery, HeaderDue} {
		all := h.Values(name)
		if len(all) != 1 {
			return Tick{}, fmt.Errorf("%w: it needs one %s", ErrTick, name)
		}
		values[i] = all[0]
	}
	seconds, err := strconv.ParseUint(values[2], 10, 31)
	if err != nil {
		return Tick{}, fmt.Errorf("%w: %s is no number of seconds", ErrTick, HeaderEvery)
	}
	due, err := time.Parse(time.RFC3339, values[3])
	if err != nil || due.UTC().Format(time.RFC3339) != values[3] {
		return Tick{}, fmt.Errorf("%w: %s is no time in UTC", ErrTick, HeaderDue)
	}
	t := Tick{Name: values[0], Shard: values[1], Every: time.Duration(seconds) * time.Second, Due: due.UTC()}
	if seconds == 0 {
		return Tick{}, fmt.Errorf("%w: %s is 0", ErrTick, HeaderEvery)
	}
	return t, t.check()
}

// Tick has the service do a tick, at TickPath. One that comes when the next is due already is passed over, which is
// logged. On an error it is to come again.
func (c *Consumer) Tick(ctx context.Context, t Tick) error {
	if err := t.check(); err != nil {
		return err
	}
	if t.over(time.Now()) {
		c.c.Log.Warn("tick passed over: the next is due", "schedule", t.Name, "due", t.Due)
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, TickPath, http.NoBody)
	if err != nil {
		return fmt.Errorf("tick %s: %w", t.Name, err)
	}
	r.RequestURI = TickPath
	r.Header.Set(HeaderTick, t.Name)
	r.Header.Set(HeaderShard, t.Shard)
	r.Header.Set(HeaderEvery, strconv.FormatInt(int64(t.Every/time.Second), 10))
	r.Header.Set(HeaderDue, t.Due.UTC().Format(time.RFC3339))
	if deadline, ok := ctx.Deadline(); ok {
		r.Header.Set(HeaderDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
	if c.c.Secret != "" {
		r.Header.Set(HeaderSecret, c.c.Secret)
	}
	status, _, err := ask(c.c.Service, r)
	switch {
	case err != nil:
		return fmt.Errorf("tick %s of %s: %w", t.Name, r.Header.Get(HeaderDue), err)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return fmt.Errorf("tick %s of %s: the service answered %d: it has no handler for POST %s", t.Name, r.Header.Get(HeaderDue), status, TickPath)
	case status < 200 || status > 299:
		return fmt.Errorf("tick %s of %s: the service answered %d", t.Name, r.Header.Get(HeaderDue), status)
	}
	return nil
}
