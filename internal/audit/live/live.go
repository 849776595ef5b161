// Package live puts together what an account says of its own limits: Service Quotas service by service, the services
// that say it better themselves, and what is in use now. It asks through small interfaces, and whatever is not
// answered is unknown, with the reason.
//
// # Guarantees
//
//  1. Complete: each limit that is asked for and can be asked for is in the answer, as a number or as unknown with a
//     reason; no error is lost.
//  2. Nearest: what a service says of itself goes before what Service Quotas says of it.
package live

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/limitdata"
)

// Quota is one quota as Service Quotas has it.
type Quota struct {
	Value   float64
	Usage   *Metric // where CloudWatch counts what is in use; nil where it does not
	Unknown string  // why Service Quotas does not know it; Value means nothing then
}

// Metric is a metric of CloudWatch and the statistic that is to be read of it.
type Metric struct {
	Namespace, Name, Statistic string
	Dimensions                 map[string]string
}

// Quotas lists the quotas of one service by their codes: what holds for the account, or AWS's default in its region.
// With an error comes what was read before it.
type Quotas interface {
	Quotas(ctx context.Context, service string) (map[string]Quota, error)
}

// Usages reads the latest value of each metric; one that has none is left out.
type Usages interface {
	Usages(ctx context.Context, metrics map[string]Metric) (map[string]float64, error)
}

// Service is a service that says its own limits, by id of limitdata.
type Service interface {
	Limits(ctx context.Context) (map[string]audit.LiveLimit, error)
}

// Sources are what one account is asked in one region. Global answers for the services that have their quotas in one
// region for all: IAM, CloudFront, Route 53 and S3's number of buckets.
type Sources struct {
	Quotas, Global       Quotas
	Usages, GlobalUsages Usages
	Services             []Named
}

// Named is a service with the ids of the limits that it says.
type Named struct {
	Name string // for messages, with what is called
	IDs  []string
	Service
}

// global are the services whose quotas stand in one region for all.
var global = map[string]bool{"iam": true, "cloudfront": true, "route53": true, "s3": true}

// Read asks for the limits of these ids.
func Read(ctx context.Context, account, region string, ids []string, s Sources) audit.LivePlace {
	p := audit.LivePlace{Account: account, Region: region, Limits: map[string]audit.LiveLimit{}}
	r := reader{s, &p, map[bool]map[string]Metric{false: {}, true: {}}}
	byService := map[string][]limitdata.Limit{}
	for _, id := range ids {
		if l, ok := limitdata.Get(id); ok && l.Code != "" {
			byService[l.Quotas] = append(byService[l.Quotas], l)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		r.quotas(ctx, service, byService[service])
	}
	r.used(ctx)
	for _, named := range s.Services {
		r.service(ctx, named, ids)
	}
	return p
}

type reader struct {
	Sources
	place   *audit.LivePlace
	metrics map[bool]map[string]Metric // by whether they are global, and id
}

func (r *reader) quotas(ctx context.Context, service string, limits []limitdata.Limit) {
	from := r.Quotas
	if global[service] {
		from = r.Global
	}
	quotas, err := from.Quotas(ctx, service)
	for _, l := range limits {
		q, listed := quotas[l.Code]
		switch {
		case !listed && err != nil:
			r.place.Limits[l.ID] = audit.LiveLimit{Unknown: err.Error()}
		case !listed:
			r.place.Limits[l.ID] = audit.LiveLimit{Unknown: "Service Quotas does not list " + l.Code + " of " + service}
		case q.Unknown != "":
			r.place.Limits[l.ID] = audit.LiveLimit{Unknown: q.Unknown}
		default:
			r.place.Limits[l.ID] = audit.LiveLimit{Max: q.Value}
			if q.Usage != nil && (l.Scope == "per-account-region" || l.Scope == "per-account") && l.Unit == "count" {
				r.metrics[global[service]][l.ID] = *q.Usage
			}
		}
	}
}

// used adds what is in use. Without it a number is compared with these stacks' share alone, which is worth a word.
func (r *reader) used(ctx context.Context) {
	for _, isGlobal := range []bool{false, true} {
		metrics := r.metrics[isGlobal]
		if len(metrics) == 0 {
			continue
		}
		from := r.Usages
		if isGlobal {
			from = r.GlobalUsages
		}
		values, err := from.Usages(ctx, metrics)
		if err != nil {
			r.place.Unread = append(r.place.Unread, fmt.Sprintf("what is in use now of %d limits: %v", len(metrics), err))
			continue
		}
		for id, v := range values {
			if limit, ok := r.place.Limits[id]; ok && v >= 0 && v < 1e9 {
				n := int(v)
				limit.Used = &n
				r.place.Limits[id] = limit
			}
		}
	}
}

func (r *reader) service(ctx context.Context, n Named, ids []string) {
	wanted := slices.DeleteFunc(slices.Clone(n.IDs), func(id string) bool { return !slices.Contains(ids, id) })
	if len(wanted) == 0 {
		return
	}
	said, err := n.Limits(ctx)
	for _, id := range wanted {
		known, asked := r.place.Limits[id]
		switch v, ok := said[id]; {
		case err == nil && ok:
			if v.Used == nil {
				v.Used = known.Used
			}
			r.place.Limits[id] = v
		case asked && known.Unknown == "":
			// Service Quotas said the number; what else the service would have said is missing
		case err != nil:
			r.place.Limits[id] = audit.LiveLimit{Unknown: fmt.Sprintf("%s: %v", n.Name, err)}
		default:
			r.place.Limits[id] = audit.LiveLimit{Unknown: n.Name + " does not say it"}
		}
	}
	if err != nil {
		r.place.Unread = append(r.place.Unread, fmt.Sprintf("%s: %v", n.Name, err))
	}
}
