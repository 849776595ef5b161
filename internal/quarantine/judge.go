package quarantine

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	firm   = 1e-6             // chance of verdicts together, from which a tenant is held by all and pinned
	told   = 1e-2             // the largest chance of a first verdict, as package poison has it for Lambda
	window = 10 * time.Minute // of verdicts that count together; and after a hold, in which less is enough

	firstHold   = 5 * time.Minute
	longestHold = time.Hour

	// PerHour is how many tenants of a cell come to quarantine in an hour, at most.
	PerHour   = 3
	maxPinned = 32

	maxSuspects = 64
	maxSaid     = 8  // verdicts that are kept of a suspect
	maxShards   = 8  // of a verdict, as package poison tells apart
	maxShardID  = 16 // bytes, as the directory has it
	maxReason   = 160
)

// state is the note.
type state struct {
	Suspects []suspect `json:"suspects"` // by tenant
	Pins     []pin     `json:"pins"`     // in the order of their beginning
}

// suspect is a tenant of which routers said something lately.
type suspect struct {
	Tenant string    `json:"tenant"`
	Said   []said    `json:"said,omitempty"`
	Shards []string  `json:"shards,omitempty"` // that went down under it
	Until  time.Time `json:"until,omitzero"`   // all routers hold it; zero when it was never suspected firmly
	Times  int       `json:"times,omitempty"`  // that it was, without a quiet time between
	Firm   bool      `json:"firm,omitempty"`   // and is to be pinned
	Left   string    `json:"left,omitempty"`   // why it is not
}

// said is the first verdict of one environment.
type said struct {
	By     string    `json:"by"` // hash of its name
	At     time.Time `json:"at"`
	Chance float64   `json:"chance"`
}

// pin is a tenant that was, or is to be, pinned to quarantine.
type pin struct {
	Tenant    string    `json:"tenant"`
	Epoch     uint64    `json:"epoch"` // of the entry that is changed
	Shards    []string  `json:"shards"`
	Operation string    `json:"operation"`
	Why       string    `json:"why"`
	At        time.Time `json:"at"`
	Done      bool      `json:"done,omitempty"`
	Gone      bool      `json:"gone,omitempty"` // somebody unpinned it, or pinned it elsewhere
}

// together is the chance that n first verdicts on an innocent tenant, of n environments, are as telling as these.
func together(chances []float64) float64 {
	n := float64(len(chances))
	if n == 0 {
		return 1
	}
	product := 1.0
	for _, c := range chances {
		product *= min(told, max(c, 1e-30)) // nothing is impossible
	}
	if n == 1 {
		return product
	}
	l := max(0, n*math.Log(told)-math.Log(product))
	sum, term := 1.0, 1.0
	for i := 1.0; i < n; i++ {
		term *= l / i
		sum += term
	}
	return min(1, product*sum)
}

// hear takes a verdict on a tenant of the cell, and says whether the tenant is suspected from now on that was not,
// or is again.
func (s *state) hear(v Verdict, now time.Time) (*suspect, bool) {
	at := v.At
	if at.After(now) {
		at = now
	}
	i, known := s.find(v.Tenant)
	first := v.Repeats == 0 && v.Chance <= told
	if now.Sub(at) > window || !v.Firm && !first && !known {
		return nil, false
	}
	if !known {
		i = s.enter(v.Tenant, now)
	}
	x := &s.Suspects[i]
	if !v.Firm && first {
		x.note(said{hashed(v.Environment), at, v.Chance})
	}
	for _, shard := range v.Shards {
		if !slices.Contains(x.Shards, shard) && len(x.Shards) < maxShards {
			x.Shards = append(x.Shards, shard)
		}
	}
	sure := v.Firm || together(x.chances(now)) <= firm*(1+1e-9)
	held := !x.Until.IsZero()
	switch {
	case sure && !held, held && at.After(x.Until) && at.Sub(x.Until) <= window && (sure || v.Repeats > 0):
	default:
		return nil, false // nothing new, or told already
	}
	x.Times++
	x.Firm = x.Firm || sure
	x.Until = now.Add(min(firstHold<<min(x.Times-1, 10), longestHold)) // however late the word of it comes
	if longest := now.Add(longestHold); v.Until.After(longest) {
		x.Until = longest
	} else if v.Until.After(x.Until) {
		x.Until = v.Until
	}
	x.Said, x.Left = nil, ""
	return x, true
}

// note keeps what an environment said, once each.
func (x *suspect) note(one said) {
	for _, had := range x.Said {
		if had.By == one.By {
			return
		}
	}
	x.Said = append(x.Said, one)
	if len(x.Said) > maxSaid {
		x.Said = x.Said[1:]
	}
}

func (x *suspect) chances(now time.Time) (all []float64) {
	for _, one := range x.Said {
		if now.Sub(one.At) <= window {
			all = append(all, one.Chance)
		}
	}
	return all
}

func (s *state) find(tenant string) (int, bool) {
	return slices.BinarySearchFunc(s.Suspects, tenant, func(x suspect, t string) int { return cmp.Compare(x.Tenant, t) })
}

// enter makes a suspect, in the place of the least telling one where there is no room.
func (s *state) enter(tenant string, now time.Time) int {
	if len(s.Suspects) >= maxSuspects {
		least := slices.MinFunc(s.Suspects, func(a, b suspect) int {
			if n := a.Until.Compare(b.Until); n != 0 {
				return n
			}
			return cmp.Compare(len(a.chances(now)), len(b.chances(now)))
		})
		i, _ := s.find(least.Tenant)
		s.Suspects = slices.Delete(s.Suspects, i, i+1)
	}
	i, _ := s.find(tenant)
	s.Suspects = slices.Insert(s.Suspects, i, suspect{Tenant: tenant})
	return i
}

// expire forgets what is over.
func (s *state) expire(now time.Time) {
	for i := range s.Suspects {
		x := &s.Suspects[i]
		x.Said = slices.DeleteFunc(x.Said, func(one said) bool { return now.Sub(one.At) > window })
		if now.After(x.Until) {
			x.Firm = false // whoever was not pinned in that time is pinned by new verdicts only
		}
	}
	s.Suspects = slices.DeleteFunc(s.Suspects, func(x suspect) bool { return len(x.Said) == 0 && now.Sub(x.Until) > window })
	s.Pins = slices.DeleteFunc(s.Pins, func(p pin) bool { return p.Gone && now.Sub(p.At) > time.Hour })
}

// live is the index of the tenant's pin that stands or is to be, -1 when there is none.
func (s *state) live(tenant string) int {
	return slices.IndexFunc(s.Pins, func(p pin) bool { return p.Tenant == tenant && !p.Gone })
}

// spent says why no other tenant may be pinned now, "" when one may.
func (s *state) spent(now time.Time) string {
	lately, there := 0, 0
	for _, p := range s.Pins {
		if now.Sub(p.At) < time.Hour {
			lately++
		}
		if !p.Gone {
			there++
		}
	}
	switch {
	case lately >= PerHour:
		return "as many tenants as the cell allows came to quarantine in the last hour: see what is wrong with all of them"
	case there >= maxPinned || len(s.Pins) >= maxPinned+PerHour:
		return "the quarantine has as many tenants as it may: release some, by tenant unpin"
	}
	return ""
}

// hashed is a short name of anything: 80 bits.
func hashed(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(h[:]))[:16]
}
