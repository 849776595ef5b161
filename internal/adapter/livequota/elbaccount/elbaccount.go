// Package elbaccount reads an account's limits of load balancers.
//
// Permission: elasticloadbalancing:DescribeAccountLimits.
package elbaccount

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"cellwall.dev/cellwall/internal/audit"
)

// Client is the part of *elasticloadbalancingv2.Client that is needed.
type Client interface {
	DescribeAccountLimits(context.Context, *elb.DescribeAccountLimitsInput, ...func(*elb.Options)) (*elb.DescribeAccountLimitsOutput, error)
}

// ids are the catalogue's ids by the names that Elastic Load Balancing has (API reference, Limit).
var ids = map[string]string{
	"application-load-balancers":                              "elb.albs-per-region",
	"network-load-balancers":                                  "elb.nlbs-per-region",
	"target-groups":                                           "elb.target-groups-per-region",
	"listeners-per-application-load-balancer":                 "alb.listeners",
	"rules-per-application-load-balancer":                     "alb.rules",
	"target-groups-per-application-load-balancer":             "alb.target-groups",
	"target-groups-per-action-on-application-load-balancer":   "alb.target-groups-per-action",
	"targets-per-application-load-balancer":                   "alb.targets",
	"target-id-registrations-per-application-load-balancer":   "alb.target-registrations",
	"certificates-per-application-load-balancer":              "alb.certificates",
	"condition-values-per-alb-rule":                           "alb.condition-values",
	"condition-wildcards-per-alb-rule":                        "alb.condition-wildcards",
	"targets-per-target-group":                                "tg.targets",
	"listeners-per-network-load-balancer":                     "nlb.listeners",
	"target-groups-per-action-on-network-load-balancer":       "nlb.target-groups-per-action",
	"targets-per-network-load-balancer":                       "nlb.targets",
	"targets-per-availability-zone-per-network-load-balancer": "nlb.targets-per-az",
	"certificates-per-network-load-balancer":                  "nlb.certificates",
}

// IDs are the limits that an Account says.
var IDs = slices.Sorted(maps.Values(ids))

const pages = 20 // of one listing: there are some twenty limits

// Account is the client's account and region.
type Account struct{ client Client }

// New returns the account of a client.
func New(client Client) Account { return Account{client} }

// Limits implements live.Service.
func (a Account) Limits(ctx context.Context) (map[string]audit.LiveLimit, error) {
	limits := map[string]audit.LiveLimit{}
	in := &elb.DescribeAccountLimitsInput{}
	for range pages {
		out, err := a.client.DescribeAccountLimits(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, l := range out.Limits {
			id, ok := ids[aws.ToString(l.Name)]
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(aws.ToString(l.Max), 64)
			if err != nil || n < 0 {
				limits[id] = audit.LiveLimit{Unknown: fmt.Sprintf("%s has the maximum %q", aws.ToString(l.Name), aws.ToString(l.Max))}
				continue
			}
			limits[id] = audit.LiveLimit{Max: n}
		}
		if aws.ToString(out.NextMarker) == "" {
			return limits, nil
		}
		in = &elb.DescribeAccountLimitsInput{Marker: out.NextMarker}
	}
	return nil, errors.New("the listing does not end")
}
