package tokenverify

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

// TestAFetchThatStoodStill with its environment is of no use to the next invocation: the keys are fetched anew, and not
// after a pause only.
func TestAFetchThatStoodStill(t *testing.T) {
	for name, failsFirst := range map[string]bool{"under way": false, "fails as it goes on": true} {
		key := rsaKey(t, "k1")
		i := newLogin(t, key)
		v, c := verifier(t, i, nil)
		began, goOn := make(chan struct{}, 1), make(chan struct{})
		real := v.keys.issuer.client.Transport
		first := true // fetches begin one after the other
		v.keys.issuer.client.Transport = carrier(func(r *http.Request) (*http.Response, error) {
			if first {
				first = false
				began <- struct{}{}
				<-goOn
				return nil, http.ErrHandlerTimeout
			}
			return real.RoundTrip(r)
		})
		running := v.keys.fetch()
		<-began
		c.pass(time.Hour)
		if failsFirst {
			close(goOn)
			<-running
		}
		if tenant, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i, "exp", at(2*time.Hour)))); err != nil || tenant != "acme" {
			t.Errorf("%s: %q, %v", name, tenant, err)
		}
		if !failsFirst {
			close(goOn)
			<-running
		}
	}
}

// TestAFetchThatPanics has failed, in a goroutine where a panic would end the process.
func TestAFetchThatPanics(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, c := verifier(t, i, nil)
	real := v.keys.issuer.client.Transport
	v.keys.issuer.client.Transport = carrier(func(*http.Request) (*http.Response, error) { panic("a fault") })
	token := sign(t, jose.RS256, key, payload(i))
	if _, err := v.Verify(t.Context(), token); err == nil || errors.Is(err, routing.ErrToken) || !strings.Contains(err.Error(), "a fault") {
		t.Errorf("verified with %v", err)
	}
	v.keys.issuer.client.Transport = real
	c.pass(firstPause)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Errorf("later: %v", err)
	}
}

// carrier is an http.RoundTripper made of a function.
type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }
