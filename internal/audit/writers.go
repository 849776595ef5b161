package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// writing are the types that change what one of their properties names: a rule changes its group, a policy its role.
var writing = map[string]string{
	"AWS::EC2::SecurityGroupIngress":              "GroupId",
	"AWS::EC2::SecurityGroupEgress":               "GroupId",
	"AWS::IAM::Policy":                            "Roles",
	"AWS::IAM::RolePolicy":                        "RoleName",
	"AWS::IAM::ManagedPolicy":                     "Roles",
	"AWS::SecretsManager::ResourcePolicy":         "SecretId",
	"AWS::SecretsManager::RotationSchedule":       "SecretId",
	"AWS::SecretsManager::SecretTargetAttachment": "SecretId",
	"AWS::AppConfig::Deployment":                  "ApplicationId",
	"AWS::AppConfig::HostedConfigurationVersion":  "ApplicationId",
	"AWS::Lambda::LayerVersionPermission":         "LayerVersionArn",
	typeFunction:                                  "LoggingConfig", // what it logs
}

// writer is who may change a shared thing: a resource by itself, or whoever holds a grant.
type writer struct {
	node  int32
	grant bool
}

// findWriters finds who may change what is shared as identity or configuration.
func (b *builder) findWriters() {
	b.writers = map[int32][]writer{}
	note := func(to int32, w writer) {
		if r := traitsOf(b.nodes[to].typ).rule; r.level == Warning && !slices.Contains(b.writers[to], w) {
			b.writers[to] = append(b.writers[to], w)
		}
	}
	for i := range int32(len(b.nodes)) {
		if property := writing[b.nodes[i].typ]; property != "" && b.nodes[i].shard >= 0 {
			for _, to := range b.named(i, property) {
				note(to, writer{node: i})
			}
		}
	}
	for _, p := range b.pending {
		if p.tie != tieGrant {
			continue
		}
		for _, to := range b.targets(p.to) {
			if traitsOf(b.nodes[to].typ).rule.level == Warning && b.mayWrite(p.from, p.at, b.nodes[to].typ) {
				note(to, writer{p.from, true})
			}
		}
	}
}

// severalWrite says how many of the shards that depend on a thing may change it, or "" when not several do.
func (g *graph) severalWrite(f *finding, s *sharers) string {
	shards := map[int32]bool{}
	for _, w := range g.writers[f.node] {
		switch own := g.nodes[w.node].shard; {
		case own >= 0:
			shards[own] = true
		case w.grant: // all that have the role by it
			for _, shard := range s.of(w.node) {
				shards[shard] = true
			}
		}
	}
	if len(shards) < 2 {
		return ""
	}
	return fmt.Sprintf("%d shards may write it: what one of them writes wrongly, all have", len(shards))
}

// mayWrite says whether the statement at path allows an action that changes a resource of that type.
func (b *builder) mayWrite(from int32, at, typ string) bool {
	n := b.nodes[from].res
	if n == nil {
		return false
	}
	keys := strings.Split(at, ".")
	k := slices.Index(keys, "Statement")
	if k < 0 {
		return false
	}
	statement := n.Properties
	for i, key := range keys {
		if j, err := strconv.Atoi(key); err == nil && statement.Kind() == template.List && j < statement.Len() {
			statement = statement.At(j)
		} else {
			next, ok := statement.Get(key)
			if !ok {
				return false
			}
			statement = next
		}
		if i >= k && statement.Kind() == template.Map {
			break
		}
	}
	if statement.GetString("Effect") == "Deny" {
		return false
	}
	if _, ok := statement.Get("NotAction"); ok {
		return true
	}
	actions, _ := statement.Get("Action")
	if s, ok := actions.Str(); ok {
		return writes(s, typ)
	}
	for i := range actions.Len() {
		if s, ok := actions.At(i).Str(); ok && writes(s, typ) {
			return true
		}
	}
	return false
}

// writeVerbs are what actions that change something begin with, in lower case.
var writeVerbs = []string{"add", "associate", "attach", "authorize", "cancel", "create", "delete", "detach", "disable", "disassociate", "enable",
	"import", "label", "modify", "put", "remove", "replace", "restore", "revoke", "rotate", "schedule", "set", "start", "update"}

// writes says whether an action changes a resource of that type.
func writes(action, typ string) bool {
	service, verb, ok := strings.Cut(strings.ToLower(action), ":")
	if !ok {
		return action == "*"
	}
	if parts := strings.Split(typ, "::"); len(parts) != 3 || service != iamPrefix(parts[1]) && service != "*" {
		return false
	}
	if verb == "creategrant" { // lets AWS's own services use a key, as does each encrypted volume
		return false
	}
	stem, _, wild := strings.Cut(verb, "*")
	return slices.ContainsFunc(writeVerbs, func(w string) bool {
		return strings.HasPrefix(verb, w) || wild && strings.HasPrefix(w, stem)
	})
}

// iamPrefix is what actions on a service's resources begin with.
func iamPrefix(service string) string {
	if service == "CertificateManager" {
		return "acm"
	}
	return strings.ToLower(service)
}
