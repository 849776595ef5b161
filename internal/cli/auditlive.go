package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/adapter/livequota"
	"cellwall.dev/cellwall/internal/adapter/livequota/dynamoaccount"
	"cellwall.dev/cellwall/internal/adapter/livequota/elbaccount"
	"cellwall.dev/cellwall/internal/adapter/livequota/lambdaaccount"
	"cellwall.dev/cellwall/internal/adapter/livequota/usage"
	"cellwall.dev/cellwall/internal/adapter/stsaccount"
	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/live"
)

const (
	liveTimeout = 2 * time.Minute // for all that one account is asked in one region
	liveTries   = 6               // of each call: listings of quotas are throttled early
)

// auditLive asks the accounts that the stacks go to for their limits.
type auditLive struct {
	ask  bool
	role string
}

func (p *auditLive) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.ask, "live", false, "compare with the limits of the accounts themselves, and add what they use now")
	cmd.Flags().StringVar(&p.role, "live-role", "", "with --live: name of the role to assume in accounts other than the caller's")
}

func (p *auditLive) apply(cmd *cobra.Command, in []audit.Variant, opt *audit.Options) error {
	if !p.ask {
		if p.role != "" {
			return usagef("--live-role says who asks, and nobody does: give --live as well")
		}
		return nil
	}
	places, environments := map[audit.Environment][]string{}, []audit.Environment{}
	for _, v := range in {
		for e, ids := range audit.LimitsUsed(v.Input, *opt) {
			places[e] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(places[e], ids))))
		}
		for _, e := range audit.Environments(v.Input.Stacks) {
			if !slices.Contains(environments, e) {
				environments = append(environments, e)
			}
		}
	}
	if len(places) == 0 {
		return hint(usagef("--live: no stack says its account and region"), "synthesise with an environment (account and region), or leave --live out")
	}
	ctx := cmd.Context()
	base, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(environments[0].Region), config.WithRetryMaxAttempts(liveTries))
	if err != nil {
		return hint(fmt.Errorf("find AWS credentials: %w", err), "set AWS_PROFILE, or sign in with the AWS CLI")
	}
	accounts, err := stsaccount.New(base, p.role, "cellwall-audit")
	if err != nil {
		return usagef("--live-role: %w", err)
	}
	opt.Live = &audit.Live{}
	for _, e := range environments {
		opt.Live.Places = append(opt.Live.Places, readLive(ctx, accounts, e, places[e]))
	}
	return nil
}

// readLive asks one account in one region. An account that cannot be asked says no limit, and the report says why.
func readLive(ctx context.Context, accounts *stsaccount.Accounts, e audit.Environment, ids []string) audit.LivePlace {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	c, err := accounts.Config(ctx, e.Account)
	if err != nil {
		return audit.UnknownPlace(e, ids, err.Error())
	}
	c.Region = e.Region
	everywhere := c.Copy()
	everywhere.Region = globalRegion(e.Region)
	return live.Read(ctx, e.Account, e.Region, ids, live.Sources{
		Quotas: quotasOf(c), Global: quotasOf(everywhere),
		Usages: usage.New(cloudwatch.NewFromConfig(c), time.Now), GlobalUsages: usage.New(cloudwatch.NewFromConfig(everywhere), time.Now),
		Services: []live.Named{
			{Name: "lambda:GetAccountSettings", IDs: lambdaaccount.IDs, Service: lambdaaccount.New(lambda.NewFromConfig(c))},
			{Name: "elasticloadbalancing:DescribeAccountLimits", IDs: elbaccount.IDs, Service: elbaccount.New(elb.NewFromConfig(c))},
			{Name: "dynamodb:DescribeLimits", IDs: dynamoaccount.IDs, Service: dynamoaccount.New(dynamodb.NewFromConfig(c))},
		},
	})
}

func quotasOf(c aws.Config) *livequota.Quotas { return livequota.New(servicequotas.NewFromConfig(c)) }

// globalRegion is where a partition has the quotas of its global services.
func globalRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "us-gov-"):
		return "us-gov-west-1"
	}
	return "us-east-1"
}
