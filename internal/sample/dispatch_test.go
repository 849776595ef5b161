package sample

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// TestDispatchTo: a job is there when the store says so, and only then.
func TestDispatchTo(t *testing.T) {
	status, got := http.StatusAccepted, ""
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got = string(body); r.Method != http.MethodPost || r.URL.Path != "/v1/dispatch/eu-1" || r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("asked %s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
	}))
	defer store.Close()
	dispatch, err := dispatchTo(store.URL+"/v1/dispatch/eu-1", "token")
	if err != nil {
		t.Fatal(err)
	}
	job := shardkit.Job{ID: "1", Tenant: "acme", Message: shardkit.Message{Method: "POST", Path: "/inbox"}}
	if err := dispatch(t.Context(), job); err != nil {
		t.Error(err)
	}
	if read, err := shardkit.ParseJob([]byte(got)); err != nil || read.ID != "1" || read.Tenant != "acme" {
		t.Errorf("the queue has %s, %v", got, err)
	}
	for _, status = range []int{200, 401, 503} {
		if dispatch(t.Context(), job) == nil {
			t.Errorf("a store that answers %d has the job", status)
		}
	}
	if dispatch(t.Context(), shardkit.Job{}) == nil {
		t.Error("no job was sent")
	}
	store.Close()
	if dispatch(t.Context(), job) == nil {
		t.Error("a store that is down has the job")
	}
	for _, bad := range []string{"127.0.0.1:80", "ftp://x/y", "http://"} {
		if _, err := dispatchTo(bad, ""); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}
