package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/health"
)

// said is what a shard answers, and how.
func said(status int, contentType, body string) *Response {
	return &Response{Status: status, Header: http.Header{"Content-Type": {contentType}, "Set-Cookie": {"a=1"}}, Body: []byte(body)}
}

// TestGathered: what is made of the members' answers, whoever of them gave which.
func TestGathered(t *testing.T) {
	const problem503 = `{"status":503,"contentType":"application/problem+json","body":{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the service is not available; nothing was done"}}`
	for name, test := range map[string]struct {
		answers []any // *Response or error, by member
		status  int
		body    string
	}{
		"all the same": {[]any{said(200, "application/json", `[1, 2]`), said(200, "application/json", `[3]`)},
			200, `{"answers":[{"status":200,"contentType":"application/json","body":[1,2]},{"status":200,"contentType":"application/json","body":[3]}]}`},
		"one alone": {[]any{said(200, "application/vnd.a+json; charset=utf-8", `{"a":1e400}`)},
			200, `{"answers":[{"status":200,"contentType":"application/vnd.a+json; charset=utf-8","body":{"a":1e400}}]}`},
		"no JSON": {[]any{said(200, "text/plain", "hi"), said(200, "application/json", "{"), said(204, "", ""), said(200, "application/json", "\"\xff\"")},
			200, `{"answers":[{"status":200,"contentType":"application/json","base64":"Iv8i"},{"status":200,"contentType":"application/json","base64":"ew=="},{"status":200,"contentType":"text/plain","base64":"aGk="},{"status":204}]}`},
		"some":           {[]any{said(200, "", ""), ErrThrottled}, 207, `{"answers":[{"status":200},` + problem503 + `]}`},
		"none":           {[]any{ErrThrottled, said(404, "", "")}, 503, `{"answers":[{"status":404},` + problem503 + `]}`},
		"all are absent": {[]any{said(404, "", ""), said(404, "", "")}, 404, `{"answers":[{"status":404},{"status":404}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := range test.answers {
				var mu sync.Mutex
				var asked []string
				var all sync.WaitGroup // no member is answered before all are asked
				all.Add(len(test.answers))
				c := testConfig(fixed{"acme": pinned("acme", eight[:len(test.answers)]...)}, sender(func(_ context.Context, call Call, req *Request) (*Response, error) {
					mu.Lock()
					asked = append(asked, call.Shard)
					mu.Unlock()
					all.Done()
					all.Wait()
					if req.Header.Get(HeaderShard) != call.Shard || req.Stream {
						t.Errorf("%s is told that it is %s, stream %t", call.Shard, req.Header.Get(HeaderShard), req.Stream)
					}
					answer := test.answers[(slices.Index(eight, call.Shard)+turn)%len(test.answers)]
					if err, failed := answer.(error); failed {
						return nil, err
					}
					return answer.(*Response), nil
				}))
				c.Routes[0].Fanout = true
				var seen Outcome
				c.Observe = func(o Outcome) { seen = o }
				e := newEngine(t, c)
				e.config.Health[ViaLambda].Report(time.Now(), []health.Report{{Shard: "s01", Drained: true}}) // it is asked all the same
				req := get("/x")
				req.Stream = true
				resp := e.Serve(t.Context(), "acme", req)
				if resp.Status != test.status || string(resp.Body) != test.body {
					t.Errorf("answered %d\n%s\nwant %d\n%s", resp.Status, resp.Body, test.status, test.body)
				}
				want := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {"r1"}}
				if diff := cmp.Diff(want, resp.Header); diff != "" {
					t.Errorf("header (-want +got):\n%s", diff)
				}
				slices.Sort(asked)
				if !slices.Equal(asked, eight[:len(test.answers)]) || len(seen.Attempts) != len(asked) || !seen.Fanout || seen.Fallbacks != 0 {
					t.Errorf("asked %v; operators are told %+v", asked, seen)
				}
			}
		})
	}
}

// TestGatheringGoesByTheNewestEntry: a member that was left since is not heard, and one that came is.
func TestGatheringGoesByTheNewestEntry(t *testing.T) {
	for _, news := range []bool{true, false} {
		reads := 0
		c := testConfig(lookup(func(string) (directory.Entry, error) {
			e := pinned("acme", "s01", "s02")
			if reads++; news && reads > 1 {
				e = pinned("acme", "s02", "s03")
				e.Epoch++
			}
			return e, nil
		}), sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			if call.Shard == "s01" {
				return &Response{Status: http.StatusMisdirectedRequest}, nil
			}
			return said(200, "application/json", fmt.Sprintf("%q", call.Shard)), nil
		}))
		c.Routes[0].Fanout = true
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
		if want := map[bool]int{true: 4, false: 2}[news]; len(seen.Attempts) != want {
			t.Errorf("news %t: sent %d times, want %d", news, len(seen.Attempts), want)
		}
		var all Gathered
		if err := json.Unmarshal(resp.Body, &all); err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{true: 200, false: 207}[news]
		if resp.Status != want || reads != 2 || len(all.Answers) != 2 || bytes.Contains(resp.Body, []byte("421")) || news != bytes.Contains(resp.Body, []byte("s03")) {
			t.Errorf("news %t: answered %d after %d readings: %s", news, resp.Status, reads, resp.Body)
		}
	}
}

// TestGatheringWaitsForNobody longer than for one attempt, and not at all for who is full.
func TestGatheringWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02", "s03")}, sender(func(ctx context.Context, call Call, _ *Request) (*Response, error) {
			if call.Shard == "s03" {
				return said(200, "application/json", "1"), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		c.Routes[0].Fanout, c.Routes[0].Timeout, c.AttemptTimeout = true, 2*time.Second, 4*time.Second
		c.Shards = full{"s01"}.shards()
		start := time.Now()
		resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
		var all Gathered
		if err := json.Unmarshal(resp.Body, &all); err != nil {
			t.Fatal(err)
		}
		var statuses []int
		for _, a := range all.Answers {
			statuses = append(statuses, a.Status)
		}
		if took := time.Since(start); took != 2*time.Second || resp.Status != 207 || !slices.Equal(statuses, []int{200, 503, 504}) {
			t.Errorf("answered %d with %v after %v", resp.Status, statuses, took)
		}
	})
}

// TestTooMuchIsGathered: more than an answer may have is none.
func TestTooMuchIsGathered(t *testing.T) {
	half := said(200, "text/plain", string(make([]byte, MaxBody/2)))
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) { return half, nil }))
	c.Routes[0].Fanout = true
	if resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x")); wantProblem(t, resp, 500) != TypeAnswerTooLarge {
		t.Errorf("answered %s", resp.Body)
	}
}

// TestFanoutTakesQuestionsOnly: everything but GET goes on to the next route, to one member.
func TestFanoutTakesQuestionsOnly(t *testing.T) {
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, naming)
	c.Routes = []Route{{Path: "/reports/*", Via: ViaLambda, Fanout: true}, {Path: "/*", Via: ViaLambda}}
	var seen Outcome
	c.Observe = func(o Outcome) { seen = o }
	e := newEngine(t, c)
	for _, method := range methods {
		e.Serve(t.Context(), "acme", &Request{Method: method, Path: "/reports/1"})
		if all := method == "GET"; seen.Fanout != all || len(seen.Attempts) != map[bool]int{true: 2, false: 1}[all] {
			t.Errorf("%s: sent to %d members by %s", method, len(seen.Attempts), seen.Route)
		}
	}
}
