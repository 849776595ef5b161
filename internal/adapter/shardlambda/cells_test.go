package shardlambda

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

const door = "arn:aws:iam::111111111111:role/orders-global-frontdoor-role-eu-west-1"

// TestForwardsToTheCell: a cell's router gets what the client sent, byte for byte, who forwards it, and the token.
func TestForwardsToTheCell(t *testing.T) {
	asked := map[string]string{} // by region
	open := func(region string) Client {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			function, _ := url.PathUnescape(strings.Split(r.URL.EscapedPath(), "/")[3])
			asked[region] = function
			payload, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			e, err := awsevent.Parse(payload)
			if err != nil {
				t.Error(err)
			}
			if e.Kind != awsevent.FunctionURL || e.Principal != door || e.Claims != nil || e.Request.Header.Get(routing.HeaderToken) != "a.b.c" {
				t.Errorf("the cell reads %+v", e)
			}
			if q := e.Request; q.Method != "PUT" || q.Path != "/a%2Fb/me%3Fadmin=true" || q.RawQuery != "x=1&x=%2B&y=" || string(q.Body) != "\xff\x00" || q.Header.Get("Authorization") == "" {
				t.Errorf("the cell reads %+v", q)
			}
			answer, err := e.Format(&routing.Response{Status: 201, Header: http.Header{"Location": {"/a"}}, Body: []byte("made")})
			if err != nil {
				t.Error(err)
			}
			w.Write(answer)
		}))
		t.Cleanup(server.Close)
		return client(server.URL)
	}
	arns := map[string]string{
		"eu-1": "arn:aws:lambda:eu-west-1:222222222222:function:orders-eu-1-router:live",
		"us-1": "arn:aws:lambda:us-east-1:222222222222:function:orders-us-1-router:live",
		"odd":  "orders-odd-router",
	}
	cells := NewCells(ByRegion(open), func(cell string) string { return arns[cell] }, door)
	send := func(cell, authorization string) (*routing.Response, error) {
		return cells.Send(t.Context(), routing.Call{Tenant: "acme", Epoch: 3, Shard: cell}, &routing.Request{
			Method: "PUT", Path: "/a%2Fb/me%3Fadmin=true", RawQuery: "x=1&x=%2B&y=", Body: []byte("\xff\x00"),
			Header: http.Header{"Authorization": {authorization}, "Host": {"api.example.com"}},
		})
	}
	for cell, authorization := range map[string]string{"eu-1": "Bearer a.b.c", "us-1": "bearer a.b.c"} {
		resp, err := send(cell, authorization)
		if err != nil || resp.Status != 201 || string(resp.Body) != "made" || resp.Header.Get("Location") != "/a" {
			t.Fatalf("%s: %+v, %v", cell, resp, err)
		}
	}
	if asked["eu-west-1"] != arns["eu-1"] || asked["us-east-1"] != arns["us-1"] {
		t.Errorf("asked %q", asked)
	}
	for _, cell := range []string{"unknown", "odd"} {
		if _, err := send(cell, "Bearer a.b.c"); !errors.Is(err, routing.ErrNotSent) {
			t.Errorf("%s: %v, want that nothing was sent", cell, err)
		}
	}
}
