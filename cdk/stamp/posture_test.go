package stamp

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// each calls visit for every resource of an assembly, in order; at is its stack's path and its logical id.
func (a assembly) each(visit func(at string, s stack, r resource)) {
	for _, path := range a.paths() {
		s := a[path]
		for _, id := range slices.Sorted(maps.Keys(s.Template.Resources)) {
			visit(path+" "+id, s, s.Template.Resources[id])
		}
	}
}

// named are the principals of other stacks that stand by the ARN of a role or user in something's own policy, each
// with the reason. AWS puts the id of the role in the ARN's place: made anew, a role of the same name is another one,
// which the policy does not let in.
var namedPrincipals = []struct{ principal, reason string }{
	{`/core FrontDoor\S+ arn:aws:iam::\d+:role/orders-global-frontdoor-role-\S+`,
		"a function's policy takes no condition on who calls, and the router believes whoever may invoke it: a whole account would be too many (docs/operating.md says what to do when the global stack was made anew)"},
}

// TestNamedPrincipals: no policy of a resource names a role or user of another stack, but for those with a reason. What
// stands as a text is of another stack: of its own, a template has references.
func TestNamedPrincipals(t *testing.T) {
	used := make([]bool, len(namedPrincipals))
	looked := 0
	eachShape(t, func(t *testing.T, a assembly) {
		a.each(func(at string, _ stack, r resource) {
			if r.Type == "AWS::IAM::Policy" {
				return // of a role, without principals
			}
			for _, p := range principals(r.Properties) {
				looked++
				if !strings.Contains(p, ":role/") && !strings.Contains(p, ":user/") || strings.HasPrefix(p, "{") {
					continue
				}
				i := slices.IndexFunc(namedPrincipals, func(n struct{ principal, reason string }) bool {
					return regexp.MustCompile(n.principal + "$").MatchString(at + " " + p)
				})
				if i < 0 {
					t.Errorf("%s names %s", at, p)
					continue
				}
				used[i] = true
			}
		})
	})
	if looked < 100 {
		t.Errorf("only %d principals were looked at", looked)
	}
	for i, n := range namedPrincipals {
		if !used[i] {
			t.Errorf("%s is named nowhere", n.principal)
		}
	}
}

// principals are the values of every Principal below v that are not of services, intrinsics as JSON.
func principals(v any) []string {
	var all []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, principals(e)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key != "Principal" {
				all = append(all, principals(v[key])...)
				continue
			}
			who := v[key]
			if m, ok := who.(map[string]any); ok && (m["AWS"] != nil || m["Service"] != nil) {
				if who = m["AWS"]; who == nil {
					continue
				}
			}
			all = append(all, texts(who)...)
		}
	}
	return all
}

// TestNobodyFromOutside: nothing but the ingress can be reached from outside of the cell: no security group lets in the
// world, load balancers are internal, no subnet gives public addresses, and nothing's own policy lets in everybody, but
// for a Function URL with auth.source verify.
func TestNobodyFromOutside(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		looked := 0
		a.each(func(at string, _ stack, r resource) {
			wrong := func(what string, v any) { t.Errorf("%s: %s: %s", at, what, text(v)) }
			switch r.Type {
			case "AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress":
				looked++
				rules, _ := r.at("SecurityGroupIngress").([]any)
				for _, rule := range append(rules, any(r.Properties)) {
					rule := rule.(map[string]any)
					if cidr, _ := rule["CidrIp"].(string); cidr != "" && !strings.HasPrefix(cidr, "10.") || rule["CidrIpv6"] != nil {
						wrong("lets in", rule)
					}
				}
			case "AWS::ElasticLoadBalancingV2::LoadBalancer":
				looked++
				if r.at("Scheme") != "internal" {
					wrong("a load balancer is", r.at("Scheme"))
				}
			case "AWS::EC2::Subnet":
				if public := r.at("MapPublicIpOnLaunch"); public != nil && public != false {
					wrong("gives public addresses", public)
				}
			case "AWS::Lambda::Permission":
				looked++
				open := r.at("FunctionUrlAuthType") == "NONE" || r.at("InvokedViaFunctionUrl") == true
				if r.at("Principal") == "*" && !open {
					wrong("everybody may", r.Properties)
				}
				if service, _ := r.at("Principal").(string); strings.HasSuffix(service, ".amazonaws.com") && r.at("SourceArn") == nil {
					wrong("the service acts for whoever asks it", r.Properties)
				}
			case "AWS::S3::Bucket":
				if got := text(r.at("PublicAccessBlockConfiguration")); got != `{"BlockPublicAcls":true,"BlockPublicPolicy":true,"IgnorePublicAcls":true,"RestrictPublicBuckets":true}` {
					wrong("is public", r.Properties)
				}
			}
			for _, property := range []string{"PolicyDocument", "KeyPolicy", "ResourcePolicy"} {
				statements, _ := r.at(property, "Statement").([]any)
				for _, s := range statements {
					s := s.(map[string]any)
					if s["Effect"] == "Allow" && slices.Contains(principals(map[string]any{"Principal": s["Principal"]}), "*") {
						wrong("its policy lets in everybody", s)
					}
				}
			}
		})
		if looked < 3 {
			t.Errorf("only %d resources were looked at", looked)
		}
	})
}

// TestEncrypted: whatever keeps something says by which key it is encrypted, but for what AWS always encrypts by a key
// of its own: tables, logs, parameters.
func TestEncrypted(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		seen := map[string]bool{}
		a.each(func(at string, _ stack, r resource) {
			ok := true
			switch r.Type {
			case "AWS::SQS::Queue":
				ok = r.at("SqsManagedSseEnabled") == true || r.at("KmsMasterKeyId") != nil
			case "AWS::S3::Bucket":
				ok = r.at("BucketEncryption", "ServerSideEncryptionConfiguration", 0, "ServerSideEncryptionByDefault", "SSEAlgorithm") != nil
			case "AWS::SecretsManager::Secret":
				ok = r.at("KmsKeyId") != nil
			case "AWS::EC2::LaunchTemplate":
				ok = r.at("LaunchTemplateData", "BlockDeviceMappings", 0, "Ebs", "Encrypted") == true
			default:
				return
			}
			seen[r.Type] = true
			if !ok {
				t.Errorf("%s is not encrypted: %s", at, text(r.Properties))
			}
		})
		if len(seen) < 2 {
			t.Errorf("looked at %v alone", seen)
		}
	})
}

// policies are what says of a queue or a bucket who may use it, and how.
var policies = []string{"AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy"}

// TestTLSOnly: buckets and queues refuse requests without TLS, as long as they stand.
func TestTLSOnly(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			s, refused := a[path], map[string]bool{}
			for _, kind := range policies {
				for _, p := range s.of(kind) {
					of := s.Template.Resources[ref(p.at("Queues", 0))]
					if p.at("Bucket") != nil {
						of = s.Template.Resources[ref(p.at("Bucket"))]
					}
					if of.DeletionPolicy == "" || p.DeletionPolicy != of.DeletionPolicy || p.UpdateReplacePolicy != of.UpdateReplacePolicy {
						t.Errorf("%s: the policy of a %s that is kept as %q and %q is kept as %q and %q", path, of.Type,
							of.DeletionPolicy, of.UpdateReplacePolicy, p.DeletionPolicy, p.UpdateReplacePolicy)
					}
					statements, _ := p.at("PolicyDocument", "Statement").([]any)
					for _, one := range statements {
						if one := one.(map[string]any); one["Effect"] == "Deny" && text(one["Condition"]) == `{"Bool":{"aws:SecureTransport":"false"}}` {
							for _, of := range append(texts(p.at("Queues")), texts(p.at("Bucket"))...) {
								refused[of] = true
							}
						}
					}
				}
			}
			for id, r := range s.Template.Resources {
				if (r.Type == "AWS::SQS::Queue" || r.Type == "AWS::S3::Bucket") && !refused[fmt.Sprintf(`{"Ref":%q}`, id)] {
					t.Errorf("%s %s takes requests without TLS", path, id)
				}
			}
		}
	})
}

// TestLogsAreKept: each function writes to a log group of its stack, and every log group is kept for a stated time, which
// is a month.
func TestLogsAreKept(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		functions := 0
		a.each(func(at string, s stack, r resource) {
			switch r.Type {
			case "AWS::Lambda::Function":
				functions++
				if s.Template.Resources[behind(s.Template.Resources, r.at("LoggingConfig", "LogGroup"))].Type != "AWS::Logs::LogGroup" {
					t.Errorf("%s writes to %s", at, text(r.at("LoggingConfig")))
				}
			case "AWS::Logs::LogGroup":
				if r.at("RetentionInDays") != 30.0 {
					t.Errorf("%s is kept for %v days", at, r.at("RetentionInDays"))
				}
			}
		})
		if functions < 2 {
			t.Errorf("%d functions", functions)
		}
	})
}

// TestRemovable: what keeps state stays when its stack goes, and nothing else does, nor does anything else keep the stack
// from going.
func TestRemovable(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		a.each(func(at string, s stack, r resource) {
			keeps := slices.Contains(stateful, r.Type) || slices.Contains(policies, r.Type) // see TestTLSOnly
			if description, _ := r.at("Description").(string); r.Type == "AWS::KMS::Key" && strings.Contains(description, " the snapshot of ") {
				keeps = false // the keeper makes another snapshot within minutes
			}
			switch {
			case keeps && (r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain"):
				t.Errorf("%s is not kept: %q, %q", at, r.DeletionPolicy, r.UpdateReplacePolicy)
			case !keeps && (r.DeletionPolicy != "" && r.DeletionPolicy != "Delete" || r.UpdateReplacePolicy != "" && r.UpdateReplacePolicy != "Delete"):
				t.Errorf("%s stays: %q, %q", at, r.DeletionPolicy, r.UpdateReplacePolicy)
			}
			if properties := text(r.Properties); strings.Contains(properties, `"deletion_protection.enabled","Value":"true"`) {
				t.Errorf("%s is protected from deletion: %s", at, properties)
			}
			protects := r.at("DeletionProtectionEnabled") == true
			if r.Type == "AWS::DynamoDB::GlobalTable" {
				protects = r.at("Replicas", 0, "DeletionProtectionEnabled") == true
			}
			if strings.HasPrefix(r.Type, "AWS::DynamoDB::") && !protects {
				t.Errorf("%s can be deleted by one request", at)
			}
		})
	})
}

// TestOneShardBehindARule: in whatever form of ingress, each rule and each listener sends to one target group, without
// weights and without stickiness, which would keep a tenant at a shard that the router did not choose.
func TestOneShardBehindARule(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		a.each(func(at string, _ stack, r resource) {
			switch r.Type {
			case "AWS::ElasticLoadBalancingV2::ListenerRule", "AWS::ElasticLoadBalancingV2::Listener":
				if properties := text(r.Properties); strings.Contains(properties, "ForwardConfig") || strings.Count(properties, `"TargetGroupArn"`) > 1 {
					t.Errorf("%s sends to several: %s", at, properties)
				}
			case "AWS::ElasticLoadBalancingV2::TargetGroup":
				if properties := text(r.Properties); !strings.Contains(properties, `{"Key":"stickiness.enabled","Value":"false"}`) {
					t.Errorf("%s is sticky: %s", at, properties)
				}
			}
		})
	})
}

// TestCellNamesNoOther: no stack of a cell names another cell or its resources.
func TestCellNamesNoOther(t *testing.T) {
	named := regexp.MustCompile(`orders[-/](eu-canary|eu-1|us-1)\b|\b(eu-canary|eu-1|us-1)\.orders\b`)
	found := 0
	a := wholeSample(t)
	for _, path := range a.paths() {
		own, _, ok := strings.Cut(path, "/")
		if !ok {
			continue // global, which names the roles of all
		}
		for _, m := range named.FindAllStringSubmatch(a[path].text, -1) {
			found++
			if m[1]+m[2] != own {
				t.Errorf("%s names %s", path, m[0])
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d names were looked at", found)
	}
}

// TestImported: a cell in somebody's network makes neither a network nor a way out, and tells its shards that network's
// subnets, in which the router is as well.
func TestImported(t *testing.T) {
	core := shape(t, "imported")["eu-canary/core"]
	for _, r := range core.Template.Resources {
		if strings.HasPrefix(r.Type, "AWS::EC2::") && !strings.HasPrefix(r.Type, "AWS::EC2::SecurityGroup") {
			t.Errorf("it makes a %s", r.Type)
		}
	}
	const subnets = `["subnet-0123456789abcdef0","subnet-0123456789abcdef1","subnet-0123456789abcdef2"]`
	if got := text(core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-router").at("VpcConfig", "SubnetIds")); got != subnets {
		t.Errorf("the router is in %s", got)
	}
	for path, want := range map[string]string{"vpc": "vpc-0123456789abcdef0", "subnet/a": "subnet-0123456789abcdef0", "subnet/b": "subnet-0123456789abcdef1", "subnet/c": "subnet-0123456789abcdef2"} {
		if got := core.named(t, "AWS::SSM::Parameter", "Name", "/cellwall/orders/eu-canary/core/"+path).at("Value"); got != want {
			t.Errorf("%s is %v, want %s", path, got, want)
		}
	}
}
