package stamp

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// caller is what calls AWS from inside of a cell's network.
type caller struct {
	what, group string   // its security group; "" for one that the core does not know
	services    []string // that it is told of, or that its role lets it call
}

// TestEndpointsAdmit: every interface endpoint lets in, on 443, the router and every instance that has business with its
// service: its private name leads there whatever its security group says, and what that drops ends at a time-out. What
// no endpoint stands for goes through a gateway, which lets everybody in. A network with NAT, or somebody else's, has no
// interface endpoint.
func TestEndpointsAdmit(t *testing.T) {
	looked := 0
	eachShape(t, func(t *testing.T, a assembly) {
		core := a["eu-canary/core"]
		gateways, admit := map[string]bool{}, map[string][]string{} // service → logical ids of groups
		for _, e := range core.of("AWS::EC2::VPCEndpoint") {
			name := text(e.at("ServiceName"))
			service := strings.Trim(name[strings.LastIndex(name, ".")+1:], `"]}`)
			if e.at("VpcEndpointType") == "Gateway" {
				gateways[service] = true
				continue
			}
			for _, group := range e.at("SecurityGroupIds").([]any) {
				admit[service] = append(admit[service], ref(group))
			}
		}
		if len(admit) == 0 {
			return
		}
		for _, c := range callers(t, a) {
			for _, service := range c.services {
				if gateways[service] {
					continue
				}
				looked++
				if !slices.ContainsFunc(admit[service], func(group string) bool { return core.admits(group, c.group) }) {
					t.Errorf("%s has business with %s, whose endpoint is behind %v and does not let it in", c.what, service, admit[service])
				}
			}
		}
	})
	if looked < 20 {
		t.Errorf("looked at %d callers' services", looked)
	}
}

// callers are the router, by what its role and its routes say, and the instances of each shard.
func callers(t *testing.T, a assembly) []caller {
	t.Helper()
	core := a["eu-canary/core"]
	router := core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-router")
	all := []caller{{"the router", ref(router.at("VpcConfig", "SecurityGroupIds", 0)), core.calls(ref(router.at("Role")))}}
	for _, path := range a.paths() {
		for id, r := range a[path].Template.Resources {
			if r.Type != "AWS::EC2::LaunchTemplate" {
				if r.Type == "AWS::Lambda::Function" && r.at("VpcConfig") != nil && r.at("FunctionName") != router.at("FunctionName") {
					t.Errorf("%s: function %s is in the network, and nobody looks at what it calls", path, id)
				}
				continue
			}
			c := caller{what: "an instance of " + path}
			for id, role := range a[path].Template.Resources {
				if role.Type == "AWS::IAM::Role" && strings.Contains(text(role.at("AssumeRolePolicyDocument")), "ec2.amazonaws.com") {
					c.services = a[path].calls(id)
				}
			}
			if len(c.services) == 0 {
				t.Errorf("%s has no role", c.what)
			}
			if told := text(r.Properties); strings.Contains(told, "CELLWALL_DISPATCH_QUEUE=") && !slices.Contains(c.services, "sqs") {
				t.Errorf("%s is told of queues, and may not call SQS", c.what)
			}
			all = append(all, c)
		}
	}
	return all
}

// calls are the services that a role's policies let it call itself.
func (s stack) calls(role string) []string {
	services := map[string]bool{}
	for _, p := range s.of("AWS::IAM::Policy") {
		if !strings.Contains(text(p.at("Roles")), `"`+role+`"`) {
			continue
		}
		for _, one := range p.at("PolicyDocument", "Statement").([]any) {
			one := one.(map[string]any)
			if one["Effect"] != "Allow" || strings.Contains(text(one["Condition"]), "kms:ViaService") { // the service asks KMS
				continue
			}
			for _, action := range texts(one["Action"]) {
				service, _, _ := strings.Cut(action, ":")
				services[service] = true
			}
		}
	}
	if strings.HasPrefix(role, "Router") { // Lambda itself attaches it to the network, and writes its log
		delete(services, "ec2")
		delete(services, "logs")
	}
	return slices.Sorted(maps.Keys(services))
}

// admits says whether a group of the core lets in another one on 443; a group that the core does not know only with the
// whole of the cell's network.
func (s stack) admits(group, other string) bool {
	https := func(rule map[string]any) bool { return rule["FromPort"] == 443.0 && rule["ToPort"] == 443.0 }
	rules, _ := s.Template.Resources[group].at("SecurityGroupIngress").([]any)
	for _, rule := range rules {
		if rule := rule.(map[string]any); https(rule) && rule["CidrIp"] == "10.20.0.0/16" {
			return true
		}
	}
	for _, rule := range s.of("AWS::EC2::SecurityGroupIngress") {
		if https(rule.Properties) && other != "" && ref(rule.at("GroupId")) == group && ref(rule.at("SourceSecurityGroupId")) == other {
			return true
		}
	}
	return false
}

// ref is the logical id that a value refers to, whichever way.
func ref(v any) string {
	m, _ := v.(map[string]any)
	if id, ok := m["Ref"].(string); ok {
		return id
	}
	if at, ok := m["Fn::GetAtt"].([]any); ok {
		id, _ := at[0].(string)
		return id
	}
	return ""
}
