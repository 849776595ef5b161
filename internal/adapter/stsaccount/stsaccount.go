// Package stsaccount finds, with AWS STS, credentials for each of several accounts: those that one has,
// when they are of the account, or else a role of one name that stands in each of the others.
package stsaccount

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// ErrOtherAccount means that the credentials are of another account than is asked for, and that no role was
// named. It comes wrapped.
var ErrOtherAccount = errors.New("the AWS credentials are of another account")

// Accounts gives SDK configurations by account. It is safe for concurrent use, asks once for each account,
// and the credentials of roles renew themselves.
type Accounts struct {
	base          aws.Config
	role, session string

	mu      sync.Mutex
	caller  arn.ARN // once known
	configs map[string]aws.Config
}

// Names of roles and of sessions, as the IAM and STS API references have them (Role, AssumeRole). A path may
// have other characters there; a colon here is an ARN given for a name.
var (
	roleName  = regexp.MustCompile(`^([\w+=,.@-]+/)*[\w+=,.@-]{1,64}$`)
	noSession = regexp.MustCompile(`[^\w+=,.@-]`)
)

const maxSession = 64 // characters

// New returns the accounts that base can work in. role is the name of a role, with its path where it has
// one ("ops/cellwall"), that base may assume in the accounts that it is not of; "" is none. session, cut to
// 64 characters and with those that STS does not take replaced, is what CloudTrail shows of who assumed it.
func New(base aws.Config, role, session string) (*Accounts, error) {
	if role != "" && !roleName.MatchString(role) {
		return nil, fmt.Errorf("%q is no name of an IAM role: want PATH/NAME or NAME, as in arn:aws:iam::ACCOUNT:role/NAME", role)
	}
	session = noSession.ReplaceAllString(session, "-")
	return &Accounts{base: base, role: role, session: session[:min(len(session), maxSession)], configs: map[string]aws.Config{}}, nil
}

// Config returns the configuration for an account, in the base's region. The credentials are known to be of
// that account: STS has said so.
func (a *Accounts) Config(ctx context.Context, account string) (aws.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.configs[account]; ok {
		return c, nil
	}
	if a.caller.AccountID == "" {
		out, err := sts.NewFromConfig(a.base).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil {
			return aws.Config{}, fmt.Errorf("ask AWS whose the credentials are: %w", err)
		}
		if a.caller, err = arn.Parse(aws.ToString(out.Arn)); err != nil {
			return aws.Config{}, fmt.Errorf("ask AWS whose the credentials are: the answer %q: %w", aws.ToString(out.Arn), err)
		}
		a.configs[a.caller.AccountID] = a.base
	}
	if c, ok := a.configs[account]; ok {
		return c, nil
	}
	if a.role == "" {
		return aws.Config{}, fmt.Errorf("%w: they are %s, and this lies in account %s", ErrOtherAccount, a.caller, account)
	}
	return a.assume(ctx, account)
}

func (a *Accounts) assume(ctx context.Context, account string) (aws.Config, error) {
	role := arn.ARN{Partition: a.caller.Partition, Service: "iam", AccountID: account, Resource: "role/" + a.role}.String()
	provider := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(a.base), role, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = a.session
	})
	c := a.base.Copy()
	c.Credentials = aws.NewCredentialsCache(provider)
	got, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("assume role %s as %s: %w", role, a.caller, err)
	}
	if got.AccountID != account {
		return aws.Config{}, fmt.Errorf("assume role %s: %w: they are of account %q", role, ErrOtherAccount, got.AccountID)
	}
	a.configs[account] = c
	return c, nil
}
