package stamp

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"

	"cellwall.dev/cellwall/internal/fleet"
)

// network is the part of a cell's core that other resources are put into. In the core stack it holds
// the resources themselves, in a shard's stack what the parameters say of them.
type network struct {
	vpc      awsec2.IVpc
	zones    []string         // the fleet's letters, in its order
	subnets  []awsec2.ISubnet // private, one for each of these
	routerSG awsec2.ISecurityGroup
	hosts    awsroute53.IPrivateHostedZone // the cell's private DNS zone
}

// placed puts a resource into the cell's subnets.
func (n network) placed() *awsec2.SubnetSelection {
	return &awsec2.SubnetSelection{Subnets: &n.subnets}
}

// within puts a resource into the subnets of some of the zones.
func (n network) within(zones []string) *awsec2.SubnetSelection {
	var subnets []awsec2.ISubnet
	for i, zone := range n.zones {
		if slices.Contains(zones, zone) {
			subnets = append(subnets, n.subnets[i])
		}
	}
	return &awsec2.SubnetSelection{Subnets: &subnets}
}

// newNetwork is the cell's own network, or the one that the fleet imports, with what is ours in it.
func newNetwork(core awscdk.Stack, p *plan) network {
	var n network
	if p.cell.VPC == nil {
		n = ownNetwork(core, p)
	} else {
		n = importedNetwork(core, p, *p.cell.VPC)
	}
	n.routerSG = routerSecurityGroup(core, n.vpc)
	n.hosts = awsroute53.NewPrivateHostedZone(core, str("Hosts"), &awsroute53.PrivateHostedZoneProps{
		ZoneName: str(p.names.Zone()), Vpc: n.vpc})
	if p.cell.VPC == nil {
		addEndpoints(core, p, n)
	}
	return n
}

// ownNetwork has one subnet a zone and, unless the fleet asks for NAT, no way out: no internet gateway and no NAT, which
// would be a shared thing that fails for every shard at once. The subnets are made here and not by Vpc, which
// numbers them: a zone's letter gives its subnet both id and block.
func ownNetwork(core awscdk.Stack, p *plan) network {
	vpc := awsec2.NewVpc(core, str("Vpc"), &awsec2.VpcProps{
		IpAddresses:                  awsec2.IpAddresses_Cidr(str(p.cell.CIDR)),
		AvailabilityZones:            strs(p.cell.ZoneNames()...),
		SubnetConfiguration:          &[]*awsec2.SubnetConfiguration{},
		NatGateways:                  num(0),
		RestrictDefaultSecurityGroup: no, // it would bring a custom resource into every cell
	})
	n := network{vpc: vpc, zones: p.cell.Zones}
	var private []awsec2.PrivateSubnet
	for _, zone := range p.cell.Zones {
		subnet := awsec2.NewPrivateSubnet(core, str("Subnet-"+zone), &awsec2.PrivateSubnetProps{
			VpcId: vpc.VpcId(), AvailabilityZone: str(p.cell.ZoneName(zone)), CidrBlock: str(p.blocks[zone])})
		n.subnets, private = append(n.subnets, subnet), append(private, subnet)
	}
	if p.public != nil {
		addNAT(core, p, vpc, private)
	}
	return n
}

// addNAT gives each zone's subnet a way out of the zone's own: a NAT gateway with an address of its own, in a public
// subnet that nothing else is in, so that a zone that fails takes no other's way with it. Nothing comes in: a NAT
// gateway passes answers alone, and nothing here has a public address.
func addNAT(core awscdk.Stack, p *plan, vpc awsec2.Vpc, private []awsec2.PrivateSubnet) {
	gateway := awsec2.NewCfnInternetGateway(core, str("InternetGateway"), nil)
	attached := awsec2.NewCfnVPCGatewayAttachment(core, str("InternetAttachment"), &awsec2.CfnVPCGatewayAttachmentProps{
		VpcId: vpc.VpcId(), InternetGatewayId: gateway.Ref()})
	for i, zone := range p.cell.Zones {
		public := awsec2.NewPublicSubnet(core, str("Public-"+zone), &awsec2.PublicSubnetProps{
			VpcId: vpc.VpcId(), AvailabilityZone: str(p.cell.ZoneName(zone)), CidrBlock: str(p.public[zone]), MapPublicIpOnLaunch: no})
		public.AddDefaultInternetRoute(gateway.Ref(), attached)
		private[i].AddDefaultNatRoute(public.AddNatGateway(nil, nil).Ref())
	}
}

// importedNetwork is a network of somebody else's. Its owner sees to the ways out, for the services
// that addEndpoints names: a second endpoint with the same private name would be refused.
func importedNetwork(core awscdk.Stack, p *plan, v fleet.VPC) network {
	n := network{zones: p.cell.Zones, vpc: awsec2.Vpc_FromVpcAttributes(core, str("Vpc"), &awsec2.VpcAttributes{
		VpcId: str(v.ID), AvailabilityZones: strs(p.cell.ZoneNames()...)})}
	for _, zone := range p.cell.Zones {
		n.subnets = append(n.subnets, importedSubnet(core, p, zone, v.Subnets[zone]))
	}
	return n
}

// importedSubnet is a subnet by its id.
func importedSubnet(st awscdk.Stack, p *plan, zone, id string) awsec2.ISubnet {
	subnet := awsec2.Subnet_FromSubnetAttributes(st, str("Subnet-"+zone), &awsec2.SubnetAttributes{
		SubnetId: str(id), AvailabilityZone: str(p.cell.ZoneName(zone))})
	awscdk.Validations_Of(subnet).Acknowledge(&awscdk.Acknowledgment{
		Id: str("@aws-cdk/aws-ec2:noSubnetRouteTableId"), Reason: str("nothing here changes routes")})
	return subnet
}

// routerSecurityGroup lets the router call AWS, where the network leads further the token issuer too, and the shards'
// load balancers, and nobody call it.
func routerSecurityGroup(core awscdk.Stack, vpc awsec2.IVpc) awsec2.ISecurityGroup {
	sg := awsec2.NewSecurityGroup(core, str("RouterGroup"), &awsec2.SecurityGroupProps{
		Vpc: vpc, AllowAllOutbound: no, Description: str("Router: out to AWS and to the shards, in from nowhere")})
	sg.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(num(443)), str("AWS, and what else the network leads to"), nil)
	sg.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(num(listenerPort)), str("load balancers of the shards"), nil)
	return sg
}

// addEndpoints are the ways out of a cell's own network, or with NAT the shorter ones to AWS. The two gateway
// endpoints cost nothing. An interface endpoint costs about 8 US dollars a month and zone, whatever travels through it, so only
// those stand here that nothing works without: for the router the key store, KMS, which opens the cell's snapshot
// while that is down, and the transports that the fleet's shards have; for instances CloudFormation, which they tell
// whether a release works, CloudWatch Logs, without which their output would go with them, and SQS where there are jobs,
// which they send and give back.
// Six in three zones are about 145 dollars a month and cell. NAT gateways in three zones are about
// 115 with nothing travelling through them, addresses included, and let everything out; with them no interface endpoint
// stands here.
//
// Functions write their logs without the network, and the shards' slices are outside of it; instances
// reach their archive, bucket and tables through the gateways, and Amazon Linux's packages, which lie in S3.
func addEndpoints(core awscdk.Stack, p *plan, n network) {
	gateway := func(id string, service awsec2.IGatewayVpcEndpointService) {
		awsec2.NewGatewayVpcEndpoint(core, str(id), &awsec2.GatewayVpcEndpointProps{
			Vpc: n.vpc, Service: service, Subnets: list(n.placed())})
	}
	gateway("ToDynamoDB", awsec2.GatewayVpcEndpointAwsService_DYNAMODB())
	gateway("ToS3", awsec2.GatewayVpcEndpointAwsService_S3())
	if p.public != nil {
		return
	}

	sg := awsec2.NewSecurityGroup(core, str("EndpointGroup"), &awsec2.SecurityGroupProps{
		Vpc: n.vpc, AllowAllOutbound: no, Description: str("Endpoints: in from the router")})
	sg.AddIngressRule(n.routerSG, awsec2.Port_Tcp(num(443)), str("router"), nil)
	shared := sg
	if p.service != nil {
		// The groups of the instances belong to the shards' stacks, which change nothing here, so what instances need
		// lets in the cell's network, the router included. What an instance may do with it, its role says.
		open := awsec2.NewSecurityGroup(core, str("SignalGroup"), &awsec2.SecurityGroupProps{
			Vpc: n.vpc, AllowAllOutbound: no, Description: str("Endpoints that instances need: in from the cell")})
		open.AddIngressRule(awsec2.Peer_Ipv4(str(p.cell.CIDR)), awsec2.Port_Tcp(num(443)), str("instances of the cell"), nil)
		shared = open
	}
	inside := func(id string, service awsec2.IInterfaceVpcEndpointService, sg awsec2.ISecurityGroup) {
		awsec2.NewInterfaceVpcEndpoint(core, str(id), &awsec2.InterfaceVpcEndpointProps{
			Vpc: n.vpc, Service: service, Subnets: n.placed(), Open: no, PrivateDnsEnabled: yes, SecurityGroups: list[awsec2.ISecurityGroup](sg)})
	}
	inside("ToSecretsManager", awsec2.InterfaceVpcEndpointAwsService_SECRETS_MANAGER(), sg)
	inside("ToKMS", awsec2.InterfaceVpcEndpointAwsService_KMS(), sg)
	if p.fleet.Shard.Lambda != nil {
		inside("ToLambda", awsec2.InterfaceVpcEndpointAwsService_LAMBDA(), sg)
	}
	if p.fleet.Shard.Queue != nil {
		inside("ToSQS", awsec2.InterfaceVpcEndpointAwsService_SQS(), shared)
	}
	if p.service != nil {
		inside("ToCloudFormation", awsec2.InterfaceVpcEndpointAwsService_CLOUDFORMATION(), shared)
		inside("ToLogs", awsec2.InterfaceVpcEndpointAwsService_CLOUDWATCH_LOGS(), shared)
	}
}
