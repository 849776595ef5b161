package change

import (
	"cmp"
	"maps"
	"slices"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Count is a number of things that are billed; of what scales, the least and the most.
type Count struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (c Count) plus(d Count) Count { return Count{c.Min + d.Min, c.Max + d.Max} }

// Billed is a kind of thing that is billed for as long as it is there, used or not, of which a cell has
// another number than before. What is billed by use alone (requests, messages, bytes) is none.
type Billed struct {
	Cell string `json:"cell,omitempty"` // "" for the whole service's
	What string `json:"what"`
	From Count  `json:"from"`
	To   Count  `json:"to"` // without Kept
	// Kept are those that stay behind outside of every stack, where they are still billed.
	Kept int `json:"kept,omitempty"`
}

// lasting are the types that are billed by the hour or month, one each, by the words for one. Those that take
// more than counting are in units.
var lasting = map[string]string{
	"AWS::CloudWatch::CompositeAlarm": "composite alarm",
	"AWS::CloudWatch::Dashboard":      "dashboard",
	"AWS::CloudWatch::InsightRule":    "Contributor Insights rule",
	"AWS::EC2::EIP":                   "public IPv4 address",
	"AWS::EC2::NatGateway":            "NAT gateway",
	"AWS::EC2::TransitGateway":        "transit gateway",
	"AWS::KMS::Key":                   "KMS key",
	"AWS::KMS::ReplicaKey":            "KMS key",
	"AWS::Route53::HostedZone":        "hosted zone",
	"AWS::SecretsManager::Secret":     "secret",
}

// units are the things of a resource that are billed, by their words.
func units(s *audit.Stack, r *template.Resource) (what string, n Count) {
	one := Count{1, 1}
	sc := scope(s)
	whole := func(path ...string) int {
		v := r.Properties
		for _, key := range path {
			v, _ = v.Get(key)
		}
		k, _ := number(sc, v)
		return k
	}
	switch r.Type {
	case "AWS::ElasticLoadBalancingV2::LoadBalancer":
		return cmp.Or(r.Properties.GetString("Type"), "application") + " load balancer", one
	case "AWS::EC2::VPCEndpoint":
		if kind := r.Properties.GetString("VpcEndpointType"); kind != "Interface" && kind != "GatewayLoadBalancer" {
			return "", Count{} // those of S3 and DynamoDB cost nothing
		}
		subnets, _ := r.Properties.Get("SubnetIds")
		zones := max(1, subnets.Len())
		return "interface endpoint in a zone", Count{zones, zones}
	case typeGroup:
		least, most := whole("MinSize"), whole("MaxSize")
		return "instance" + size(s, r), Count{least, most}
	case "AWS::EC2::Instance":
		return "instance " + r.Properties.GetString("InstanceType"), one
	case "AWS::Lambda::Alias":
		k := whole("ProvisionedConcurrencyConfig", "ProvisionedConcurrentExecutions")
		return "provisioned execution environment", Count{k, k}
	case "AWS::CloudWatch::Alarm":
		metrics, _ := r.Properties.Get("Metrics")
		n := 0 // each metric that an expression reads is billed like an alarm of its own
		for i := range metrics.Len() {
			if _, ok := metrics.At(i).Get("MetricStat"); ok {
				n++
			}
		}
		n = max(n, 1)
		return "metric watched by an alarm", Count{n, n}
	}
	if what, ok := lasting[r.Type]; ok {
		return what, one
	}
	return "", Count{}
}

// size is the type of a group's instances, with a space before it, or "" when its launch template is not in the
// stack or leaves that open.
func size(s *audit.Stack, group *template.Resource) string {
	lt, _ := group.Properties.Get("LaunchTemplate")
	id, _ := lt.Get("LaunchTemplateId")
	r := find(&s.Template, id.GetString("Ref"))
	if r == nil {
		return ""
	}
	data, _ := r.Properties.Get("LaunchTemplateData")
	v, _ := data.Get("InstanceType")
	if name, ok := literal(scope(s), v); ok && name != "" {
		return " " + name
	}
	return ""
}

// billed are the differences of what is billed, by cell and words.
func billed(was, next side, stacks []Stack) []Billed {
	type key struct{ cell, what string }
	all := map[key]*Billed{}
	at := func(cell, what string) *Billed {
		k := key{cell, what}
		if all[k] == nil {
			all[k] = &Billed{Cell: cell, What: what}
		}
		return all[k]
	}
	each := func(s side, add func(b *Billed, n Count)) {
		for i := range s.stacks {
			for j := range s.stacks[i].Template.Resources {
				if what, n := units(&s.stacks[i], &s.stacks[i].Template.Resources[j]); n.Max > 0 {
					add(at(s.places[i].Cell, what), n)
				}
			}
		}
	}
	each(was, func(b *Billed, n Count) { b.From = b.From.plus(n) })
	each(next, func(b *Billed, n Count) { b.To = b.To.plus(n) })
	for i := range stacks {
		old := was.stack(stacks[i].key())
		for j := range stacks[i].Resources {
			e := &stacks[i].Resources[j]
			if !e.Kept || old == nil {
				continue
			}
			if r := find(&old.Template, e.ID); r != nil {
				if what, n := units(old, r); n.Max > 0 {
					at(stacks[i].Cell, what).Kept += n.Max
				}
			}
		}
	}
	out := []Billed{}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.cell, b.cell), cmp.Compare(a.what, b.what))
	}) {
		if b := all[k]; b.From != b.To || b.Kept > 0 {
			out = append(out, *b)
		}
	}
	return out
}
