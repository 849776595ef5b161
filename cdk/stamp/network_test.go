package stamp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestNetwork: a cell's own network has no way in or out but the endpoints.
func TestNetwork(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	for _, banned := range []string{"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"} {
		if n := len(core.of(banned)); n > 0 {
			t.Errorf("%d of %s", n, banned)
		}
	}
	if d := cmp.Diff([]string{"cloudformation Interface", "dynamodb Gateway", "kms Interface", "lambda Interface", "logs Interface", "s3 Gateway", "secretsmanager Interface", "sqs Interface"}, endpoints(core)); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	checkWaysIn(t, core)
}

// endpoints are a core's, by service and type.
func endpoints(core stack) []string {
	var services []string
	for _, e := range core.of("AWS::EC2::VPCEndpoint") {
		name := text(e.at("ServiceName"))
		services = append(services, strings.Trim(name[strings.LastIndex(name, ".")+1:], `"]}`)+" "+e.at("VpcEndpointType").(string))
	}
	slices.Sort(services)
	return services
}

// checkWaysIn: nobody gets in but security groups by name, and instances to their endpoint; nothing has a public address.
func checkWaysIn(t *testing.T, core stack) {
	t.Helper()
	for _, r := range core.of("AWS::EC2::SecurityGroupIngress") {
		if r.at("SourceSecurityGroupId") == nil {
			t.Errorf("a security group lets in more than another group: %s", text(r.Properties))
		}
	}
	for _, r := range core.of("AWS::EC2::SecurityGroup") {
		// The instances' way to CloudFormation alone, whose groups the core does not know.
		if in := text(r.at("SecurityGroupIngress")); in != "null" &&
			in != `[{"CidrIp":"10.20.0.0/16","Description":"instances of the cell","FromPort":443,"IpProtocol":"tcp","ToPort":443}]` {
			t.Errorf("a security group lets in %s", in)
		}
	}
	for _, r := range core.of("AWS::EC2::Subnet") {
		if r.at("MapPublicIpOnLaunch") == true {
			t.Errorf("a subnet gives out public addresses: %s", text(r.Properties))
		}
	}
}

// TestNAT: each zone's subnet leads out by a gateway of the zone's own, with an address of its own, in a public subnet
// that nothing else is in; there is no other way in or out but the two endpoints that cost nothing.
func TestNAT(t *testing.T) {
	core := shape(t, "everything")["eu-canary/core"]
	if d := cmp.Diff([]string{"dynamodb Gateway", "s3 Gateway"}, endpoints(core)); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	checkWaysIn(t, core)
	zoneOf, ofTable := map[string]string{}, map[string]string{} // subnets by their logical id
	public := map[string]bool{}
	for id, r := range core.Template.Resources {
		if r.Type == "AWS::EC2::Subnet" {
			zoneOf[id] = r.at("AvailabilityZone").(string)
			public[id] = strings.HasPrefix(id, "Public")
		}
	}
	for _, r := range core.of("AWS::EC2::SubnetRouteTableAssociation") {
		ofTable[r.at("RouteTableId", "Ref").(string)] = r.at("SubnetId", "Ref").(string)
	}
	addresses := map[string]bool{}
	for _, g := range core.of("AWS::EC2::NatGateway") {
		in, address := g.at("SubnetId", "Ref").(string), text(g.at("AllocationId"))
		if !public[in] || addresses[address] || g.at("ConnectivityType") == "private" {
			t.Errorf("a gateway in %s has the address %s", in, address)
		}
		addresses[address] = true
	}
	ways := map[string]string{}
	for _, r := range core.of("AWS::EC2::Route") {
		from := ofTable[r.at("RouteTableId", "Ref").(string)]
		if r.at("DestinationCidrBlock") != "0.0.0.0/0" || ways[from] != "" {
			t.Errorf("%s leads to %s", from, text(r.Properties))
		}
		if nat, ok := r.at("NatGatewayId", "Ref").(string); ok {
			ways[from] = zoneOf[core.Template.Resources[nat].at("SubnetId", "Ref").(string)]
		} else if r.at("GatewayId", "Ref") == "InternetGateway" && public[from] && slices.Contains(r.DependsOn, "InternetAttachment") {
			ways[from] = "internet"
		}
	}
	for subnet, zone := range zoneOf {
		want := zone
		if public[subnet] {
			want = "internet"
		}
		if ways[subnet] != want {
			t.Errorf("subnet %s of %s leads out by %q, want %q", subnet, zone, ways[subnet], want)
		}
	}
	if len(zoneOf) != 6 || len(addresses) != 3 {
		t.Errorf("%d subnets and %d gateways, want a pair and one a zone", len(zoneOf), len(addresses))
	}
	// Nothing but the gateways is in a public subnet.
	for id, r := range core.Template.Resources {
		for subnet := range public {
			if public[subnet] && strings.Contains(text(r.Properties), `"`+subnet+`"`) && r.Type != "AWS::EC2::NatGateway" && r.Type != "AWS::EC2::SubnetRouteTableAssociation" {
				t.Errorf("%s %s is in %s", r.Type, id, subnet)
			}
		}
	}
}

// TestNATSwitched: a cell that gets NAT or gives it up keeps its network, its subnets and what is in them.
func TestNATSwitched(t *testing.T) {
	before := shape(t, "lambda-only")["eu-canary/core"].Template.Resources
	after := synth(t, sample(t, shapes["lambda-only"], func(f *fleet.Fleet) {
		f.Cells[0].Egress = fleet.EgressNAT
		f.Cells[0].Shards = f.Cells[0].Shards[:1]
	}))["eu-canary/core"].Template.Resources
	for id, r := range before {
		if strings.HasPrefix(r.Type, "AWS::EC2::") && !strings.HasPrefix(id, "To") && !strings.HasPrefix(id, "EndpointGroup") {
			if d := cmp.Diff(r, after[id]); d != "" {
				t.Errorf("%s changed (-before +after):\n%s", id, d)
			}
		}
	}
}

// TestNATLeadsToOtherRegions: a cell without a replica of the directory beside it is refused without a way out, and
// reads the directory where it is with one; beside a replica its router asks the home region, too.
func TestNATLeadsToOtherRegions(t *testing.T) {
	afar := func(egress fleet.Egress, replicas ...string) *fleet.Fleet {
		return sample(t, shapes["lambda-only"], func(f *fleet.Fleet) {
			f.Cells[0].Region, f.Cells[0].Egress, f.Cells[0].Shards = "us-east-1", egress, f.Cells[0].Shards[:1]
			f.Directory.Replicas = replicas
		})
	}
	if _, err := try(t, input(afar(fleet.EgressEndpoints))); err == nil || !strings.Contains(err.Error(), "egress: nat") {
		t.Errorf("without a way to the directory: %v", err)
	}
	for _, c := range []struct {
		replicas     []string
		region, home string
	}{{nil, "eu-west-1", ""}, {[]string{"us-east-1"}, "us-east-1", "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"}} {
		env := synth(t, afar(fleet.EgressNAT, c.replicas...))["eu-canary/core"].environment(t, "orders-eu-canary-router")
		if region, home := env("CELLWALL_DIRECTORY_REGION"), env("CELLWALL_DIRECTORY_HOME"); region != c.region || home != c.home {
			t.Errorf("with replicas %v the router reads in %s and asks %q at home", c.replicas, region, home)
		}
	}
}

// TestShardZones: the instances of a shard are in its own zone, or in all of the cell's; its load balancer is in all.
func TestShardZones(t *testing.T) {
	subnets := func(ids any) string {
		var zones []string
		for _, id := range texts(ids) {
			_, rest, _ := strings.Cut(id, "coresubnet")
			zones = append(zones, rest[:1])
		}
		return strings.Join(zones, "")
	}
	zoneOf := map[string]string{}
	for _, s := range sample(t).Cells[0].Shards {
		zoneOf[s.ID] = s.Zone
	}
	grouped := synth(t, sample(t, shapes["http-only"], shapes["grouped"], func(f *fleet.Fleet) { f.Shard.Zones = fleet.ZonesOne }))
	for shard, zone := range zoneOf {
		path := "eu-canary/shard-" + shard
		for what, c := range map[string]struct {
			stack stack
			want  string
		}{"all": {shape(t, "per-shard")[path], "abc"}, "one": {shape(t, "everything")[path], zone}, "one, grouped": {grouped[path], zone}} {
			if got := subnets(c.stack.one(t, "AWS::AutoScaling::AutoScalingGroup").at("VPCZoneIdentifier")); got != c.want {
				t.Errorf("%s: instances of %s are in the zones %q, want %q", what, shard, got, c.want)
			}
			for _, alb := range c.stack.of("AWS::ElasticLoadBalancingV2::LoadBalancer") {
				if got := subnets(alb.at("Subnets")); got != "abc" {
					t.Errorf("%s: the load balancer of %s is in the zones %q", what, shard, got)
				}
			}
		}
	}
}
