package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"cellwall.dev/cellwall/internal/fleet"
)

// networks is what an account's region has of networks, but for those that every region has by default.
type networks struct {
	vpcs      map[string]string // CIDR blocks by id
	zones     map[string]bool   // of their subnets
	running   int               // instances
	endpoints int
	ways      []string // out of a network: NAT gateways, internet gateways, addresses
}

func (w *world) networks(t *testing.T, at place) networks {
	t.Helper()
	client := ec2.NewFromConfig(w.at(t, at))
	found := networks{vpcs: map[string]string{}, zones: map[string]bool{}}
	vpcs, err := client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vpcs.Vpcs {
		if !aws.ToBool(v.IsDefault) {
			found.vpcs[*v.VpcId] = *v.CidrBlock
		}
	}
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subnets.Subnets {
		if !aws.ToBool(s.DefaultForAz) {
			found.zones[*s.AvailabilityZone] = true
			if found.vpcs[*s.VpcId] == "" {
				t.Errorf("subnet %s is of network %s, which is not there", *s.SubnetId, *s.VpcId)
			}
		}
	}
	instances := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{})
	for instances.HasMorePages() {
		for _, r := range page(t, instances.NextPage).Reservations {
			for _, i := range r.Instances {
				if i.State.Name != types.InstanceStateNameTerminated {
					found.running++
				}
			}
		}
	}
	endpoints := ec2.NewDescribeVpcEndpointsPaginator(client, &ec2.DescribeVpcEndpointsInput{})
	for endpoints.HasMorePages() {
		for _, e := range page(t, endpoints.NextPage).VpcEndpoints {
			if !strings.EqualFold(string(e.State), string(types.StateDeleted)) {
				found.endpoints++
			}
		}
	}
	nats := ec2.NewDescribeNatGatewaysPaginator(client, &ec2.DescribeNatGatewaysInput{})
	for nats.HasMorePages() {
		for _, n := range page(t, nats.NextPage).NatGateways {
			if n.State != types.NatGatewayStateDeleted {
				found.ways = append(found.ways, *n.NatGatewayId)
			}
		}
	}
	addresses, err := client.DescribeAddresses(t.Context(), &ec2.DescribeAddressesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses.Addresses {
		found.ways = append(found.ways, *a.PublicIp)
	}
	gateways, err := client.DescribeInternetGateways(t.Context(), &ec2.DescribeInternetGatewaysInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gateways.InternetGateways {
		found.ways = append(found.ways, *g.InternetGatewayId)
	}
	return found
}

// network reads back a cell's own network. The cells of the sample fleet share no account's region.
func (w *world) network(t *testing.T, name string) {
	cell := w.cell(t, name)
	found := w.networks(t, place{cell.Account, cell.Region})
	out, err := ssm.NewFromConfig(w.in(t, name)).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(w.of(name).Param("core/vpc"))})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{*out.Parameter.Value: cell.CIDR}; !maps.Equal(found.vpcs, want) {
		t.Errorf("networks %v, want the cell's alone: %v", found.vpcs, want)
	}
	if got, want := slices.Sorted(maps.Keys(found.zones)), cell.ZoneNames(); !slices.Equal(got, want) {
		t.Errorf("subnets in %v, want %v", got, want)
	}
	if want := len(cell.Shards.IDs()) * w.fleet.Shard.HTTP.Min; found.running != want {
		t.Errorf("%d instances run, want %d", found.running, want)
	}
	if cell.Egress == fleet.EgressNAT {
		w.gateways(t, cell, found)
	} else if found.endpoints == 0 || len(found.ways) > 0 {
		t.Errorf("%d endpoints, and ways out %v; want endpoints and no way out", found.endpoints, found.ways)
	}
}

// gateways follows the ways out of a network with NAT gateways: in each zone the private subnet leads to that zone's own,
// which stands in a public subnet with an address of its own, and that to the one internet gateway.
func (w *world) gateways(t *testing.T, cell fleet.Cell, found networks) {
	t.Helper()
	if want := 2*len(cell.Zones) + 1; len(found.ways) != want { // a gateway and an address for each zone
		t.Errorf("ways out %v, want %d", found.ways, want)
	}
	client := ec2.NewFromConfig(w.aws.Config(t, cell.Account, cell.Region))
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	zone := map[string]string{} // of a subnet
	for _, s := range subnets.Subnets {
		zone[*s.SubnetId] = *s.AvailabilityZone
	}
	nats, err := client.DescribeNatGateways(t.Context(), &ec2.DescribeNatGatewaysInput{})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{} // the subnet of a NAT gateway
	for _, n := range nats.NatGateways {
		at[*n.NatGatewayId] = *n.SubnetId
	}
	tables, err := client.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{} // a subnet's way
	for _, table := range tables.RouteTables {
		for _, r := range table.Routes {
			for _, a := range table.Associations {
				if aws.ToString(r.DestinationCidrBlock) == "0.0.0.0/0" && a.SubnetId != nil {
					out[*a.SubnetId] = aws.ToString(r.NatGatewayId) + aws.ToString(r.GatewayId)
				}
			}
		}
	}
	private := map[string]bool{}
	for subnet, way := range out {
		nat, through := at[way]
		switch {
		case through && (zone[nat] != zone[subnet] || !strings.HasPrefix(out[nat], "igw-")):
			t.Errorf("subnet %s of %s leads to %s in %s, and from there to %s", subnet, zone[subnet], way, zone[nat], out[nat])
		case through:
			private[zone[subnet]] = true
		case !strings.HasPrefix(way, "igw-"):
			t.Errorf("subnet %s leads to %q", subnet, way)
		}
	}
	if got, want := slices.Sorted(maps.Keys(private)), cell.ZoneNames(); !slices.Equal(got, want) {
		t.Errorf("private subnets lead out in %v, want %v", got, want)
	}
}

// noNetwork is what a destroyed cell leaves of its network.
func (w *world) noNetwork(t *testing.T, at place) {
	t.Helper()
	found := w.networks(t, at)
	if len(found.vpcs)+len(found.zones)+found.running+found.endpoints+len(found.ways) > 0 {
		t.Errorf("of the network there is left: %+v", found)
	}
}

// schedule reads back how often a cell's keeper runs.
func (w *world) schedule(t *testing.T, name string) {
	t.Helper()
	cell := w.cell(t, name)
	var out struct {
		Rules []struct{ Name, ScheduleExpression, State string }
	}
	w.aws.Ask(t, cell.Account, cell.Region, "events", "1.1", "AWSEvents.ListRules", nil, &out)
	for _, r := range out.Rules {
		if r.Name != w.of(name).KeeperSchedule() {
			continue
		}
		minutes := int(w.fleet.Keeper.Every.Minutes())
		want := map[bool]string{true: "rate(1 minute)", false: fmt.Sprintf("rate(%d minutes)", minutes)}[minutes == 1]
		if r.ScheduleExpression != want || r.State != "ENABLED" {
			t.Errorf("the keeper runs by %s, which is %s; want %s", r.ScheduleExpression, r.State, want)
		}
		return
	}
	t.Error("nothing has the keeper run")
}
