package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/limitdata"
)

type fakeQuotas func(service string) (map[string]Quota, error)

func (f fakeQuotas) Quotas(_ context.Context, service string) (map[string]Quota, error) {
	return f(service)
}

type fakeUsages func(map[string]Metric) (map[string]float64, error)

func (f fakeUsages) Usages(_ context.Context, m map[string]Metric) (map[string]float64, error) {
	return f(m)
}

type fakeService func() (map[string]audit.LiveLimit, error)

func (f fakeService) Limits(context.Context) (map[string]audit.LiveLimit, error) { return f() }

// TestComplete draws which source answers what, and holds that every limit is a number or has a reason.
func TestComplete(t *testing.T) {
	all := limitdata.All()
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, len(all)-1), func(i int) int { return i }).Draw(t, "limits") {
			ids = append(ids, all[i].ID)
		}
		quotas := fakeQuotas(func(service string) (map[string]Quota, error) {
			out := map[string]Quota{}
			for _, l := range all {
				if l.Quotas != service || l.Code == "" {
					continue
				}
				switch rapid.IntRange(0, 3).Draw(t, "quota") {
				case 0:
					out[l.Code] = Quota{Value: 7, Usage: &Metric{Namespace: "AWS/Usage"}}
				case 1:
					out[l.Code] = Quota{Unknown: "broken"}
				case 2:
					out[l.Code] = Quota{Value: 8}
				}
			}
			if rapid.Bool().Draw(t, "fails") {
				return out, errors.New("denied")
			}
			return out, nil
		})
		failing := rapid.Bool().Draw(t, "usages fail")
		asked := 0
		usages := fakeUsages(func(m map[string]Metric) (map[string]float64, error) {
			asked++
			if failing {
				return nil, errors.New("no metrics")
			}
			out := map[string]float64{}
			for id := range m {
				out[id] = 3
			}
			return out, nil
		})
		lambda := fakeService(func() (map[string]audit.LiveLimit, error) {
			if rapid.Bool().Draw(t, "lambda fails") {
				return nil, errors.New("no lambda")
			}
			return map[string]audit.LiveLimit{"lambda.concurrency": {Max: 10}}, nil
		})
		p := Read(t.Context(), "111111111111", "eu-west-1", ids, Sources{Quotas: quotas, Global: quotas, Usages: usages, GlobalUsages: usages,
			Services: []Named{{"lambda:GetAccountSettings", []string{"lambda.concurrency"}, lambda}}})
		for _, id := range ids {
			l, _ := limitdata.Get(id)
			v, ok := p.Limits[id]
			if ok != (l.Code != "") {
				t.Fatalf("%s with the code %q: answered %v", id, l.Code, ok)
			}
			if ok && v.Unknown == "" && v.Max == 0 {
				t.Fatalf("%s is neither a number nor unknown", id)
			}
		}
		for id := range p.Limits {
			if !slices.Contains(ids, id) {
				t.Fatalf("%s was not asked for", id)
			}
		}
		if failing && asked > 0 && !slices.ContainsFunc(p.Unread, func(s string) bool { return strings.Contains(s, "no metrics") }) {
			t.Fatalf("the error of the metrics is lost: %q", p.Unread)
		}
	})
}

func TestNearest(t *testing.T) {
	quotas := fakeQuotas(func(string) (map[string]Quota, error) {
		return map[string]Quota{"L-B99A9384": {Value: 1000}}, nil
	})
	for _, c := range []struct {
		service fakeService
		want    float64
		unread  int
	}{
		{func() (map[string]audit.LiveLimit, error) {
			return map[string]audit.LiveLimit{"lambda.concurrency": {Max: 10}}, nil
		}, 10, 0},
		{func() (map[string]audit.LiveLimit, error) { return nil, errors.New("denied") }, 1000, 1},
	} {
		p := Read(t.Context(), "111111111111", "eu-west-1", []string{"lambda.concurrency"}, Sources{Quotas: quotas,
			Services: []Named{{"lambda:GetAccountSettings", []string{"lambda.concurrency"}, c.service}}})
		if v := p.Limits["lambda.concurrency"]; v.Max != c.want || v.Unknown != "" || len(p.Unread) != c.unread {
			t.Errorf("%+v, want %v", p, c.want)
		}
	}
}
