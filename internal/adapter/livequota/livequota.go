// Package livequota lists an account's quotas with AWS Service Quotas, service by service: one call for each quota
// would soon be throttled. The packages below it ask the services that say more of themselves.
//
// Permissions: servicequotas:ListServiceQuotas and servicequotas:ListAWSDefaultServiceQuotas.
package livequota

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"golang.org/x/time/rate"

	"cellwall.dev/cellwall/internal/audit/live"
)

// Client is the part of *servicequotas.Client that is needed, of the region that is asked for.
type Client interface {
	ListServiceQuotas(context.Context, *servicequotas.ListServiceQuotasInput, ...func(*servicequotas.Options)) (*servicequotas.ListServiceQuotasOutput, error)
	ListAWSDefaultServiceQuotas(context.Context, *servicequotas.ListAWSDefaultServiceQuotasInput, ...func(*servicequotas.Options)) (*servicequotas.ListAWSDefaultServiceQuotasOutput, error)
}

const (
	perSecond = 5   // calls; an account has ten in each region for all who ask (limitdata, servicequotas.list-rps)
	page      = 100 // quotas in one answer, the most that there are
	pages     = 50  // of one listing: no service has 5,000 quotas
)

// Quotas lists quotas. It is safe for concurrent use.
type Quotas struct {
	client Client
	pace   *rate.Limiter
}

var _ live.Quotas = (*Quotas)(nil)

// New returns the quotas of the client's account and region.
func New(client Client) *Quotas {
	return &Quotas{client: client, pace: rate.NewLimiter(perSecond, perSecond)}
}

// Quotas implements live.Quotas. Service Quotas leaves out what was never applied to the account; of that AWS's default
// in this region holds. With an error comes what was read before it.
func (q *Quotas) Quotas(ctx context.Context, service string) (map[string]live.Quota, error) {
	applied := map[string]live.Quota{}
	in := &servicequotas.ListServiceQuotasInput{ServiceCode: &service, MaxResults: aws.Int32(page)}
	err := q.all(ctx, func(token *string) (next *string, err error) {
		in.NextToken = token
		out, err := q.client.ListServiceQuotas(ctx, in)
		if err != nil {
			return nil, err
		}
		add(applied, out.Quotas)
		return out.NextToken, nil
	})
	if err != nil {
		return applied, fmt.Errorf("servicequotas:ListServiceQuotas of %s: %w", service, err)
	}
	defaults := map[string]live.Quota{}
	defIn := &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: &service, MaxResults: aws.Int32(page)}
	err = q.all(ctx, func(token *string) (next *string, err error) {
		defIn.NextToken = token
		out, err := q.client.ListAWSDefaultServiceQuotas(ctx, defIn)
		if err != nil {
			return nil, err
		}
		add(defaults, out.Quotas)
		return out.NextToken, nil
	})
	maps.Copy(defaults, applied)
	if err != nil {
		return defaults, fmt.Errorf("servicequotas:ListAWSDefaultServiceQuotas of %s: %w", service, err)
	}
	return defaults, nil
}

var errEndless = errors.New("the listing does not end")

// all calls a listing page by page.
func (q *Quotas) all(ctx context.Context, list func(token *string) (*string, error)) error {
	var token *string
	for range pages {
		if err := q.pace.Wait(ctx); err != nil {
			return err
		}
		next, err := list(token)
		if err != nil {
			return err
		}
		if aws.ToString(next) == "" {
			return nil
		}
		token = next
	}
	return errEndless
}

func add(to map[string]live.Quota, quotas []types.ServiceQuota) {
	for i := range quotas {
		s := &quotas[i]
		q := live.Quota{}
		switch {
		case s.ErrorReason != nil:
			q.Unknown = fmt.Sprintf("Service Quotas: %s: %s", s.ErrorReason.ErrorCode, aws.ToString(s.ErrorReason.ErrorMessage))
		case s.Value == nil:
			q.Unknown = "Service Quotas says no value"
		default:
			q.Value = *s.Value
		}
		if m := s.UsageMetric; m != nil && aws.ToString(m.MetricName) == "ResourceCount" {
			q.Usage = &live.Metric{Namespace: aws.ToString(m.MetricNamespace), Name: aws.ToString(m.MetricName),
				Statistic: aws.ToString(m.MetricStatisticRecommendation), Dimensions: m.MetricDimensions}
		}
		to[aws.ToString(s.QuotaCode)] = q
	}
}
