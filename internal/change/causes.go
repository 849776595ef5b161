package change

import (
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// attribute gives each change of a stack the edits of the fleet that lead to it, as far as that can be told:
// the edit that brings or takes the cell or shard; else the only one that there is for the cell; else those whose
// values the change has, or of which it is a sign.
func attribute(s *Stack, edits []Edit) {
	var near []Edit // that can have to do with the stack
	for _, e := range edits {
		if e.Cell == "" || e.Cell == s.Cell || s.Cell == "" {
			near = append(near, e)
		}
	}
	whole := ""
	for _, e := range near {
		if s.Kind != Changed && s.Cell != "" && (e.Path == "cells["+s.Cell+"]" || s.Shard != "" && e.Path == "cells["+s.Cell+"].shards["+s.Shard+"]") {
			whole = e.Path
		}
	}
	for i := range s.Resources {
		r := &s.Resources[i]
		switch {
		case whole != "":
			r.Causes = []string{whole}
		case len(near) == 1:
			r.Causes = []string{near[0].Path}
		default:
			for _, e := range near {
				if signOf(s, r, e) || slices.ContainsFunc(r.Properties, func(p Property) bool { return carries(p, e) }) {
					r.Causes = append(r.Causes, e.Path)
				}
			}
		}
	}
}

// sign is how a change of the fleet shows whose values are in no template: by the types of what comes and goes, and
// by the properties that change.
type sign struct {
	key        string // in the fleet, of a cell's without cells[NAME].
	shard      bool   // shows in the stacks of shards, and else in the others
	types      []string
	properties []string // the first words of their paths
}

var signs = []sign{
	{key: "alerts", properties: []string{"AlarmActions", "OKActions", "InsufficientDataActions"}},
	{key: "alerts", shard: true, properties: []string{"AlarmActions", "OKActions", "InsufficientDataActions"}},
	{key: "deploy.permissionsBoundary", properties: []string{"PermissionsBoundary"}},
	{key: "deploy.permissionsBoundary", shard: true, properties: []string{"PermissionsBoundary"}},
	{key: "deploy.tags", properties: []string{"TagSpecifications", "Tags"}},
	{key: "deploy.tags", shard: true, properties: []string{"TagSpecifications", "Tags"}},
	{key: "egress", types: []string{"AWS::EC2::EIP", "AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route", "AWS::EC2::VPCEndpoint", "AWS::EC2::VPCGatewayAttachment"}},
	{key: "router.ingress", types: []string{"AWS::ApiGatewayV2::Api", "AWS::Lambda::Url"}},
	{key: "router.stream", properties: []string{"InvokeMode"}},
	{key: "shard.bucket", shard: true, types: []string{"AWS::S3::Bucket"}},
	{key: "shard.encryption", shard: true, types: []string{"AWS::KMS::Alias", "AWS::KMS::Key"},
		properties: []string{"BucketEncryption", "KmsKeyId", "KmsMasterKeyId", "SSESpecification", "SqsManagedSseEnabled"}},
	{key: "shard.http", shard: true, types: []string{typeGroup, "AWS::EC2::LaunchTemplate", "AWS::ElasticLoadBalancingV2::LoadBalancer", "AWS::ElasticLoadBalancingV2::TargetGroup"}},
	{key: "shard.lambda", shard: true, types: []string{typeFunction}},
	{key: "shard.queue", shard: true, types: []string{"AWS::Lambda::EventSourceMapping", "AWS::SQS::Queue"}},
	{key: "shard.schedules", shard: true, types: []string{"AWS::Events::Rule"}, properties: []string{"ScheduleExpression"}},
	{key: "shard.table", shard: true, types: []string{"AWS::DynamoDB::Table"}},
	{key: "zones", types: []string{"AWS::EC2::Subnet"}},
}

// signOf says whether a change is a sign of an edit.
func signOf(s *Stack, r *Resource, e Edit) bool {
	key := strings.TrimPrefix(e.Path, "cells["+e.Cell+"].")
	if key == "generation" && slices.ContainsFunc(r.Properties, byGeneration) {
		return true
	}
	return slices.ContainsFunc(signs, func(sign sign) bool {
		rest, ok := strings.CutPrefix(key, sign.key)
		if !ok || sign.shard != (s.Shard != "") || rest != "" && rest[0] != '.' && rest[0] != '[' {
			return false
		}
		if r.Kind == Added || r.Kind == Removed { // for the key itself, and not for one below it
			return (rest == "" || rest[0] == '[') && slices.Contains(sign.types, r.Type)
		}
		return slices.ContainsFunc(r.Properties, func(p Property) bool {
			first, _, _ := strings.Cut(p.Path, ".")
			return slices.Contains(sign.properties, first)
		})
	})
}

// inGeneration is where a name, or the version of a placement key, says of which generation it is.
var inGeneration = regexp.MustCompile(`-g[0-9]+\b|\bg[0-9]+-`)

// byGeneration says whether a property differs by the generation alone, or is it.
func byGeneration(p Property) bool {
	if strings.HasSuffix(p.Path, ".CELLWALL_GENERATION") {
		return true
	}
	if p.From == nil || p.To == nil {
		return false
	}
	from, _ := p.From.MarshalJSON() // only strings could fail, and they do not
	to, _ := p.To.MarshalJSON()
	return string(from) != string(to) && inGeneration.ReplaceAllString(string(from), "") == inGeneration.ReplaceAllString(string(to), "")
}

// carries says whether a property goes from an edit's old value to its new one, or names the cell or shard that the
// edit brings or takes on one side alone.
func carries(p Property, e Edit) bool {
	if e.Cell != "" && (e.From == "" || e.To == "") {
		if e.Path == "cells["+e.Cell+"]" {
			return mentions(p.From, e.Cell) != mentions(p.To, e.Cell)
		}
		if shard, ok := strings.CutPrefix(e.Path, "cells["+e.Cell+"].shards["); ok && strings.HasSuffix(shard, "]") {
			shard = strings.TrimSuffix(shard, "]")
			return mentions(p.From, shard) != mentions(p.To, shard)
		}
	}
	return text(p.From) == e.From && text(p.To) == e.To && (e.From != "" || e.To != "")
}

// mentions says whether a cell's or a shard's name stands in a value, as names and ARNs have it: with a sign of its own on
// both sides.
func mentions(n *template.Node, name string) bool {
	if n == nil {
		return false
	}
	data, _ := n.MarshalJSON() // only strings could fail, and they do not
	for rest := string(data); ; {
		at := strings.Index(rest, name)
		if at < 0 {
			return false
		}
		end := at + len(name)
		if at > 0 && !alnum.MatchString(rest[at-1:at]) && end < len(rest) && !alnum.MatchString(rest[end:end+1]) {
			return true
		}
		rest = rest[end:]
	}
}

// inherit gives a resource of which no edit is known those of the resources with which it changes: of those that it
// names, and where it comes or goes and none of these has one, of those that come or go with it and name it.
func inherit(s *Stack) {
	at := map[string]*Resource{}
	for i := range s.Resources {
		at[s.Resources[i].ID] = &s.Resources[i]
	}
	with := func(a, b *Resource) bool { // what comes or goes does so with its like, and not because another one changed
		return b != nil && (a.Kind == b.Kind || a.Kind != Added && a.Kind != Removed)
	}
	for _, named := range []bool{false, true} {
		for more := true; more; {
			more = false
			causes := map[*Resource][]string{} // of those that have none
			for i := range s.Resources {
				r := &s.Resources[i]
				for _, id := range r.after {
					switch e := at[id]; {
					case !with(r, e):
					case len(r.Causes) == 0:
						causes[r] = append(causes[r], e.Causes...)
					case named && len(e.Causes) == 0 && e.Kind == r.Kind && (e.Kind == Added || e.Kind == Removed):
						causes[e] = append(causes[e], r.Causes...)
					}
				}
			}
			for r, all := range causes {
				slices.Sort(all)
				r.Causes = slices.Compact(all)
				more = more || len(all) > 0
			}
		}
	}
}

// text is a scalar as text, "" for what is not there or no scalar.
func text(n *template.Node) string {
	if n == nil {
		return ""
	}
	t, _ := n.Scalar()
	return t
}
