package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// addresses are two cells' stacks with six Elastic IP addresses.
func addresses() stackSet {
	s := stackSet{}
	for _, cell := range []string{"eu-1", "eu-2"} {
		for i := range 3 {
			s.put("orders-"+cell+"-core", fmt.Sprint("Ip", i), "AWS::EC2::EIP", object{})
		}
	}
	return s
}

func said(id string, l audit.LiveLimit) *audit.Live {
	return &audit.Live{Places: []audit.LivePlace{{Account: "111111111111", Region: "eu-west-1", Limits: map[string]audit.LiveLimit{id: l}}}}
}

func number(n int) *int { return &n }

// TestLiveLimits holds that an account's own number goes before the default, that what it uses is added as a range,
// and that what it does not say is a review item and never passes for a number.
func TestLiveLimits(t *testing.T) {
	for name, c := range map[string]struct {
		live  *audit.Live
		level string // of QT007, or of UN008 when the limit is unknown
		has   string
	}{
		"nobody asked":          {nil, "error", "6 of 5 at most"},
		"raised":                {said("ec2.eips", audit.LiveLimit{Max: 20}), "", ""},
		"raised and used":       {said("ec2.eips", audit.LiveLimit{Max: 10, Used: number(5)}), "review", "6 to 11 of 10 at most: elastic IP addresses per Region, account 111111111111, eu-west-1 (orders-eu-1: 3 + orders-eu-2: 3); the account has 5 now"},
		"used up by others":     {said("ec2.eips", audit.LiveLimit{Max: 10, Used: number(11)}), "error", "11 to 17 of 10 at most"},
		"nearly used by others": {said("ec2.eips", audit.LiveLimit{Max: 100, Used: number(80)}), "warning", "80 to 86 of 100 at most"},
		"unknown":               {said("ec2.eips", audit.LiveLimit{Unknown: "access denied"}), "review", "6 of 5 at most"},
		"of another account":    {&audit.Live{Places: []audit.LivePlace{{Account: "222222222222", Region: "eu-west-1", Limits: map[string]audit.LiveLimit{"ec2.eips": {Max: 20}}}}}, "error", "6 of 5 at most"},
	} {
		r := audit.Run(addresses().load(t), audit.Options{Live: c.live})
		got := ""
		for _, f := range r.Findings {
			if f.Limit == nil || f.Limit.ID != "ec2.eips" || strings.HasPrefix(f.Rule, "PL") {
				continue
			}
			got = f.Level.String()
			if !strings.HasPrefix(f.Message, c.has) {
				t.Errorf("%s: %q, want %q", name, f.Message, c.has)
			}
			if unknown := name == "unknown"; unknown != (f.Rule == "UN008") || unknown != strings.Contains(f.Reason, "unknown (access denied)") {
				t.Errorf("%s: rule %s because %q", name, f.Rule, f.Reason)
			}
		}
		if got != c.level {
			t.Errorf("%s: level %q, want %q", name, got, c.level)
		}
		if listed := slices.ContainsFunc(r.Findings, func(f audit.Finding) bool {
			return f.Rule == "UN008" && f.Message == "1 limit of account 111111111111, eu-west-1 unknown (access denied): elastic IP addresses per Region"
		}); listed != (name == "unknown") {
			t.Errorf("%s: the list of what is unknown: %v", name, listed)
		}
	}
}

// TestHardLimitsNeedNoAccount holds that a limit that AWS raises for nobody is judged although an account could not be
// asked.
func TestHardLimitsNeedNoAccount(t *testing.T) {
	s := sharedALB(101, true)
	live := &audit.Live{Places: []audit.LivePlace{audit.UnknownPlace(audit.Environment{Account: "111111111111", Region: "eu-west-1"}, []string{"alb.target-groups", "alb.rules"}, "denied")}}
	if r := audit.Run(s.load(t), audit.Options{Live: live}); levelOf(r, "QT001") != "fatal" {
		t.Errorf("%+v", r.Findings)
	}
}

// TestLiveConcurrency holds that the account's concurrency goes before the fleet file's, and that what is reserved
// already counts for sure only as far as it is more than the stacks reserve.
func TestLiveConcurrency(t *testing.T) {
	for _, c := range []struct {
		limit audit.LiveLimit
		level string
		max   int
	}{
		{audit.LiveLimit{Max: 1000}, "", 0},
		{audit.LiveLimit{Max: 1000, Used: number(60)}, "", 0},
		{audit.LiveLimit{Max: 100, Used: number(0)}, "error", 0},
		{audit.LiveLimit{Max: 1000, Used: number(870)}, "warning", 900},
		{audit.LiveLimit{Max: 180, Used: number(30)}, "review", 80},
		{audit.LiveLimit{Unknown: "denied"}, "", 0},
	} {
		s, _ := cleanFleet(false) // reserves 3 × 20
		r := audit.Run(s.load(t), audit.Options{Live: said("lambda.concurrency", c.limit)})
		got := ""
		for _, f := range r.Findings {
			if f.Rule == "QT002" {
				got = f.Level.String()
				if f.Limit.Max != c.max || f.Limit.Source != "live" {
					t.Errorf("%+v: %+v", c.limit, f.Limit)
				}
			}
		}
		if got != c.level {
			t.Errorf("%+v: %q, want %q", c.limit, got, c.level)
		}
	}
}

// TestLimitsUsed holds that only what the stacks draw on is asked for, global limits in each region.
func TestLimitsUsed(t *testing.T) {
	s := addresses()
	s.put("orders-eu-1-core", "Role", "AWS::IAM::Role", object{})
	used := audit.LimitsUsed(s.load(t), audit.Options{})
	ids := used[audit.Environment{Account: "111111111111", Region: "eu-west-1"}]
	if len(used) != 1 || !slices.Contains(ids, "ec2.eips") || !slices.Contains(ids, "iam.roles") || slices.Contains(ids, "vpc.vpcs") || slices.Contains(ids, "lambda.concurrency") {
		t.Errorf("%v", used)
	}
}
