package sample

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
)

func TestPreconditions(t *testing.T) {
	h := newService(t, Config{})
	one, two := etag([]byte("one")), etag([]byte("two"))
	for i, step := range []struct {
		method, header, value, body string
		status                      int
		after                       string // "" for nothing
	}{
		{"PUT", "If-Match", "*", "one", 412, ""},
		{"PUT", "If-Match", one, "one", 412, ""},
		{"DELETE", "If-Match", one, "", 412, ""},
		{"PUT", "If-None-Match", "*", "one", 204, "one"},
		{"PUT", "If-None-Match", "*", "two", 412, "one"},
		{"GET", "If-None-Match", one, "", 304, "one"},
		{"GET", "If-None-Match", two + ", " + one, "", 304, "one"},
		{"GET", "If-None-Match", two, "", 200, "one"},
		{"PUT", "If-Match", two, "two", 412, "one"},
		{"PUT", "If-Match", one, "two", 204, "two"},
		{"PUT", "If-Match", "*", "one", 204, "one"},
		{"PUT", "If-Match", two + "," + one, "two", 204, "two"},
		{"DELETE", "If-Match", one, "", 412, "two"},
		{"DELETE", "If-Match", two, "", 204, ""},
		{"DELETE", "", "", "", 204, ""},
		{"PUT", "", "", "", 204, ""},
		{"DELETE", "If-Match", etag(nil), "", 204, ""},
	} {
		w := request(h, step.method, "/orders/1", step.body, step.header, step.value)
		if w.Code != step.status || step.status == 204 && step.method == "PUT" && w.Header().Get("ETag") != etag([]byte(step.body)) {
			t.Errorf("step %d: answered %d with %v, want %d", i, w.Code, w.Header(), step.status)
		}
		after := request(h, "GET", "/orders/1", "")
		if found := after.Code == 200; found && (after.Body.String() != step.after || after.Header().Get("ETag") != etag([]byte(step.after))) || !found && step.after != "" {
			t.Errorf("step %d: there is %d %q, want %q", i, after.Code, after.Body, step.after)
		}
	}
}

// TestCreate: a new order each time, unless the request says that it is the same.
func TestCreate(t *testing.T) {
	h := newService(t, Config{})
	seen := map[string]bool{}
	for i, key := range []string{"", "", `"a"`, `"a"`, `"b"`} {
		w := request(h, "POST", "/orders", "hello", shardkit.HeaderIdempotencyKey, key)
		var answer struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 201 || w.Header().Get("Location") != "/orders/"+answer.ID {
			t.Fatalf("answered %d %s with %v: %v", w.Code, w.Body, w.Header(), err)
		}
		if seen[answer.ID] != (i == 3) || (w.Header().Get(shardkit.HeaderReplayed) == "true") != (i == 3) {
			t.Errorf("request %d: %s, after %v", i, answer.ID, seen)
		}
		seen[answer.ID] = true
		if got := request(h, "GET", w.Header().Get("Location"), ""); got.Body.String() != "hello" || got.Header().Get("ETag") != w.Header().Get("ETag") {
			t.Errorf("there is %d %q", got.Code, got.Body)
		}
	}
	if w := request(h, "POST", "/orders", "other", shardkit.HeaderIdempotencyKey, `"a"`); w.Code != 422 {
		t.Errorf("the key for another order: %d", w.Code)
	}
	if w := request(h, "POST", "/orders", strings.Repeat("x", maxItem+1)); w.Code != 413 {
		t.Errorf("too large: %d", w.Code)
	}
	// A PUT that comes late does not undo what its repeat was followed by.
	request(h, "PUT", "/orders/1", "old", shardkit.HeaderIdempotencyKey, `"p"`)
	request(h, "PUT", "/orders/1", "new")
	if w := request(h, "PUT", "/orders/1", "old", shardkit.HeaderIdempotencyKey, `"p"`); w.Code != 204 || request(h, "GET", "/orders/1", "").Body.String() != "new" {
		t.Errorf("late: answered %d, and it is undone", w.Code)
	}
}

// TestAppend has jobs work on one order, each delivered several times, some at once.
func TestAppend(t *testing.T) {
	h := newService(t, Config{})
	if w := request(h, "POST", "/jobs/0?append=log", "x"); w.Code != 404 {
		t.Errorf("to an order that is not there: %d", w.Code)
	}
	request(h, "PUT", "/orders/log", "")
	var wg sync.WaitGroup
	const n = 12
	for i := range n {
		for range 3 {
			wg.Go(func() {
				job := fmt.Sprint("j", i)
				for try := 0; ; try++ {
					w := request(h, "POST", fmt.Sprintf("/jobs/%d?append=log", i), string(rune('a'+i)), shardkit.HeaderJob, job, shardkit.HeaderIdempotencyKey, job)
					if w.Code == 204 {
						return
					}
					if w.Header().Get("Retry-After") == "" || try > 1000 {
						t.Errorf("job %d: answered %d %s", i, w.Code, w.Body)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	got := request(h, "GET", "/orders/log", "").Body.Bytes()
	slices.Sort(got)
	if want := "abcdefghijkl"; string(got) != want {
		t.Errorf("the order is %q, want each of %q once", got, want)
	}
	for i := range n {
		if w := request(h, "GET", fmt.Sprint("/jobs/", i), ""); w.Body.String() != string(rune('a'+i)) {
			t.Errorf("the result of job %d is %d %q", i, w.Code, w.Body)
		}
	}
	request(h, "PUT", "/orders/full", strings.Repeat("x", maxItem))
	for path, want := range map[string]int{"/jobs/9?append=full": 413, "/jobs/9?append=-": 400, "/jobs/9?append=": 400} {
		if w := request(h, "POST", path, "y"); w.Code != want {
			t.Errorf("%s: answered %d, want %d", path, w.Code, want)
		}
	}
}

// busy is a store in which an order is never as it was read.
type busy struct{ *shardkit.Memory }

func (busy) Get(context.Context, string, string) ([]byte, bool, error) {
	return []byte("another's"), true, nil
}

func TestAppendGivesUp(t *testing.T) {
	h := newService(t, Config{Items: busy{holding("acme")}})
	if w := request(h, "POST", "/jobs/1?append=log", "y"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("answered %d with %v", w.Code, w.Header())
	}
}

// TestIfMatchHoldsUntilTheEnd: an order that changes after it was read is not written over.
func TestIfMatchHoldsUntilTheEnd(t *testing.T) {
	for _, method := range []string{"PUT", "DELETE"} {
		h := newService(t, Config{Items: busy{holding("acme")}})
		if w := request(h, method, "/orders/1", "", "If-Match", etag([]byte("another's"))); w.Code != http.StatusPreconditionFailed {
			t.Errorf("%s: answered %d", method, w.Code)
		}
	}
}
