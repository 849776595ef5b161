package stsaccount

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// fakeSTS knows callers by their access key, which is KEY and their account.
type fakeSTS struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string // action and what it was given
}

var signedBy = regexp.MustCompile(`Credential=KEY(\d{12})/`)

const path = "arn:aws-cn:iam::222222222222:role/ops/"

func newFakeSTS(t *testing.T) *fakeSTS {
	f := &fakeSTS{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		by := signedBy.FindStringSubmatch(r.Header.Get("Authorization"))
		if by == nil {
			http.Error(w, "not signed", http.StatusForbidden)
			return
		}
		role := r.FormValue("RoleArn")
		f.calls = append(f.calls, strings.TrimSpace(fmt.Sprint(r.FormValue("Action"), " ", role, " ", r.FormValue("RoleSessionName"))))
		switch {
		case r.FormValue("Action") == "GetCallerIdentity":
			fmt.Fprintf(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>%s</Account><Arn>arn:aws-cn:iam::%s:user/ann</Arn><UserId>u</UserId></GetCallerIdentityResult></GetCallerIdentityResponse>`, by[1], by[1])
		case role == path+"cellwall", role == path+"strays":
			account := "222222222222"
			if role == path+"strays" {
				account = "999999999999"
			}
			fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><AssumedRoleUser><Arn>arn:aws-cn:sts::%s:assumed-role/x/y</Arn><AssumedRoleId>a:b</AssumedRoleId></AssumedRoleUser><Credentials><AccessKeyId>KEY%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
				account, account, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>may not assume</Message></Error></ErrorResponse>`)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeSTS) accounts(t *testing.T, role string) *Accounts {
	t.Helper()
	a, err := New(aws.Config{
		Region: "cn-north-1", BaseEndpoint: &f.URL, Credentials: credentials.NewStaticCredentialsProvider("KEY111111111111", "s", ""),
	}, role, "cellwall-Änn/"+strings.Repeat("x", 100))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func keyOf(t *testing.T, c aws.Config) string {
	t.Helper()
	got, err := c.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got.AccessKeyID
}

// Each account gets credentials of its own, asked for once, in the partition of the caller.
func TestConfig(t *testing.T) {
	f := newFakeSTS(t)
	a := f.accounts(t, "ops/cellwall")
	var wg sync.WaitGroup
	for range 8 {
		for _, account := range []string{"111111111111", "222222222222"} {
			wg.Go(func() {
				c, err := a.Config(t.Context(), account)
				if err != nil {
					t.Error(err)
				} else if got := keyOf(t, c); got != "KEY"+account {
					t.Errorf("account %s has the credentials %s", account, got)
				}
			})
		}
	}
	wg.Wait()
	want := []string{"GetCallerIdentity", "AssumeRole " + path + "cellwall cellwall--nn-" + strings.Repeat("x", 64-len("cellwall--nn-"))}
	if fmt.Sprint(f.calls) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", f.calls, want)
	}
}

func TestConfigRefuses(t *testing.T) {
	f := newFakeSTS(t)
	for words, c := range map[string]struct{ role, account string }{
		"arn:aws-cn:iam::111111111111:user/ann, and this lies in account 222222222222": {"", "222222222222"},
		"may not assume":            {"ops/cellwall", "333333333333"},
		`of account "999999999999"`: {"ops/strays", "222222222222"},
	} {
		_, err := f.accounts(t, c.role).Config(t.Context(), c.account)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want %q", c, err, words)
		}
		if got, want := errors.Is(err, ErrOtherAccount), c.role != "ops/cellwall"; got != want {
			t.Errorf("%+v: is ErrOtherAccount: %t", c, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.accounts(t, "").Config(ctx, "111111111111"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestRoleNames(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "cellwall": true, "a+=,.@-_1": true, "ops/eu/cellwall": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "a b": false, "/a": false, "a/": false, "arn:aws:iam::1:role/x": false, "a\n": false, "ä": false,
	} {
		if _, err := New(aws.Config{}, name, ""); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
