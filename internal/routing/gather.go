package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
)

// Gathered is the answer of a route with fan-out: what every member of the tenant's subset answered. Their order
// is that of their status and content and says nothing of who gave which.
//
// Its status is 200 when all of them succeeded (2xx), 207 when some did, and else the highest of theirs. A
// member that gave no answer stands there with the status and the problem document that a client gets whose
// request went to it alone.
type Gathered struct {
	Answers []GatheredAnswer `json:"answers"`
}

// GatheredAnswer is what one member answered. Body is there when the answer is JSON, Base64 when it is anything
// else; neither when it is empty.
type GatheredAnswer struct {
	Status      int             `json:"status"`
	ContentType string          `json:"contentType,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
	Base64      []byte          `json:"base64,omitempty"`
}

// gather asks every member of the subset at the same time, each once, the drained and the unhealthy too: what is
// asked for may be there alone.
func (s *serving) gather(ctx context.Context, entry directory.Entry) *Response {
	if s.out.Poisoned = s.config.Poison != nil && s.config.Poison.Suspect(s.out.Tenant); s.out.Poisoned {
		// It is kept to one member at a time, and this is for all of them.
		return s.refuseUndone("the service is not available", errPoisoned).retryAfter(gatherAgain)
	}
	members, refusal := s.place(ctx, entry)
	if refusal != nil {
		return refusal
	}
	answers := s.askAll(ctx, entry, members)
	if slices.ContainsFunc(answers, attempt.misdirected) && ctx.Err() == nil && s.left() > 0 {
		if fresh, ok := s.news(ctx, entry); ok {
			if fresh, refusal = s.settle(ctx, fresh); refusal != nil {
				return refusal
			}
			if members, refusal = s.place(ctx, fresh); refusal != nil {
				return refusal
			}
			answers = s.askAll(ctx, fresh, members)
		}
	}
	return s.together(answers)
}

// gatherAgain is when to ask again, in seconds, for what a suspect may not ask for now.
const gatherAgain = 30

var errPoisoned = fmt.Errorf("the tenant is suspected of taking down who serves it: not every member is asked for it")

// askAll sends the request to the members and returns what became of it, in their order.
func (s *serving) askAll(ctx context.Context, entry directory.Entry, members []string) []attempt {
	answers, notes := make([]attempt, len(members)), make([]Attempt, len(members))
	limit := s.left()
	if most := s.attemptTimeout(); most > 0 {
		limit = min(limit, most)
	}
	var wg sync.WaitGroup
	for i, shard := range members {
		if !s.acquire(shard) {
			answers[i] = attempt{err: errFull}
			continue
		}
		header := s.ownHeader()
		wg.Go(func() { answers[i], notes[i] = s.try(ctx, entry, shard, limit, header) })
	}
	wg.Wait()
	for i, note := range notes {
		if note.Shard != "" {
			s.note(answers[i], note)
		}
	}
	return answers
}

// together makes one answer of all.
func (s *serving) together(attempts []attempt) *Response {
	type part struct {
		GatheredAnswer
		text []byte
	}
	parts := make([]part, len(attempts))
	succeeded, highest, size := 0, 0, 0
	for i, a := range attempts {
		resp := s.answer(a)
		p := part{GatheredAnswer: gathered(resp)}
		p.text, _ = json.Marshal(p.GatheredAnswer) // of valid JSON, strings and bytes
		size += len(p.text)
		if resp.Status < 300 {
			succeeded++
		}
		highest = max(highest, resp.Status)
		parts[i] = p
	}
	if size > MaxBody {
		return AnswerTooLarge()
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.Status != b.Status {
			return a.Status - b.Status
		}
		return bytes.Compare(a.text, b.text)
	})
	all := Gathered{Answers: make([]GatheredAnswer, len(parts))}
	for i, p := range parts {
		all.Answers[i] = p.GatheredAnswer
	}
	status := highest
	switch {
	case succeeded == len(parts):
		status = http.StatusOK
	case succeeded > 0:
		status = http.StatusMultiStatus
	}
	body, _ := json.Marshal(all)
	return &Response{Status: status, Body: body, Header: http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
	}}
}

// gathered writes one answer down.
func gathered(resp *Response) GatheredAnswer {
	g := GatheredAnswer{Status: resp.Status, ContentType: resp.Header.Get("Content-Type")}
	switch {
	case len(resp.Body) == 0:
	case isJSON(g.ContentType) && utf8.Valid(resp.Body) && json.Valid(resp.Body):
		g.Body = resp.Body
	default:
		g.Base64 = resp.Body
	}
	return g
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
