package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// audit reads back what was acknowledged: each order once, each job's order until it is there, and whether
// anything was done twice.
func (l *load) audit(ctx context.Context, report *LoadReport) error {
	byTenant := map[int32][]order{}
	for _, o := range l.orders {
		byTenant[int32(o.tenant)] = append(byTenant[int32(o.tenant)], o)
	}
	err := l.each(ctx, "reading back", sortedTenants(byTenant), func(ctx context.Context, t int32) error {
		for _, o := range byTenant[t] {
			value, found, err := l.getSurely(ctx, o)
			l.mu.Lock()
			switch {
			case err != nil:
				report.Unread++
			case !found || value != o.value:
				report.Lost++
			}
			l.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.auditCreates(ctx, report); err != nil {
		return err
	}
	if err := l.auditJobs(ctx, report); err != nil {
		return err
	}
	if report.Unread > 0 {
		return fmt.Errorf("%d acknowledged writes could not be read back", report.Unread)
	}
	return nil
}

// auditCreates counts the orders that a create made more than once: new ones whose value another has.
func (l *load) auditCreates(ctx context.Context, report *LoadReport) error {
	known := map[int32]map[string]string{} // value by id, of what was acknowledged
	for _, o := range l.orders {
		t := int32(o.tenant)
		if known[t] == nil {
			known[t] = map[string]string{}
		}
		known[t][o.id] = o.value
	}
	return l.each(ctx, "counting", sortedTenants(l.before), func(ctx context.Context, t int32) error {
		ids, err := l.list(ctx, t)
		if err != nil {
			return fmt.Errorf("list the orders of tenant %q: %w", l.Tenants[t].ID, err)
		}
		times := map[string]int{}
		for id := range ids {
			value, acknowledged := known[t][id]
			switch {
			case l.before[t][id] || strings.HasPrefix(id, l.id): // an older one, or one that the client named
				continue
			case !acknowledged:
				if value, _, err = l.getSurely(ctx, order{tenant: int(t), id: id}); err != nil {
					return err
				}
			}
			if strings.HasPrefix(value, Create.String()+" "+l.id+"-") {
				times[value]++
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, n := range times {
			report.Doubled += n - 1
		}
		return nil
	})
}

// auditJobs waits until every acknowledged job is done. Each appends what only it appends, so that one that took
// effect twice is seen.
func (l *load) auditJobs(ctx context.Context, report *LoadReport) error {
	byTenant := map[int32][]order{}
	for _, o := range l.jobs {
		byTenant[int32(o.tenant)] = append(byTenant[int32(o.tenant)], o)
	}
	deadline := time.Now().Add(jobsLimit)
	return l.each(ctx, "awaiting jobs of tenants", sortedTenants(byTenant), func(ctx context.Context, t int32) error {
		for _, o := range byTenant[t] {
			times, err := l.awaitJob(ctx, o, deadline)
			if err != nil {
				return err
			}
			l.mu.Lock()
			if times == 0 {
				report.JobsUndone++
			} else {
				report.JobsDoubled += times - 1
			}
			l.mu.Unlock()
		}
		return nil
	})
}

// awaitJob is how often a job took effect, 0 when it did not until the deadline.
func (l *load) awaitJob(ctx context.Context, o order, deadline time.Time) (times int, err error) {
	for {
		value, found, err := l.client.get(ctx, l.Tenants[o.tenant].Token, o.id)
		switch {
		case err == nil && found && strings.Contains(value, o.value):
			return strings.Count(value, o.value), nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case time.Now().After(deadline):
			return 0, nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// getSurely reads an order, and asks again when no answer comes: that would not be the order's loss.
func (l *load) getSurely(ctx context.Context, o order) (value string, found bool, err error) {
	for try := 1; ; try++ {
		value, found, err = l.client.get(ctx, l.Tenants[o.tenant].Token, o.id)
		if err == nil || ctx.Err() != nil || try == readTries {
			return value, found, errors.Join(err, ctx.Err())
		}
		sleep(ctx, time.Duration(try)*500*time.Millisecond)
	}
}
