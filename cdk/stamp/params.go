package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	elb "github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsssm"
)

// What the core stack tells the shards' stacks, one SSM parameter a value, by these paths under the
// cell's own (names.Cell.Param). Subnets are told by zone: their place in a list would change.
const (
	paramVPC         = "core/vpc"
	paramRouterGroup = "core/router-sg"
	paramHosts       = "core/zone"
)

func paramSubnet(zone string) string { return "core/subnet/" + zone }

// paramGroup is one value of a load balancer that several shards stand behind.
func paramGroup(group, value string) string { return "core/ingress/" + group + "/" + value }

// Values of a group.
const (
	groupListener = "listener" // ARN
	groupSG       = "alb-sg"   // security group id
	groupARN      = "alb"      // ARN
	groupDNS      = "dns"      // name that AWS gave it
	groupDNSZone  = "dns-zone" // hosted zone of that name
)

func publishNetwork(core awscdk.Stack, p *plan, n network) {
	publish(core, p, "ParamVpc", paramVPC, n.vpc.VpcId())
	publish(core, p, "ParamRouterGroup", paramRouterGroup, n.routerSG.SecurityGroupId())
	publish(core, p, "ParamZone", paramHosts, n.hosts.HostedZoneId())
	for i, zone := range p.cell.Zones {
		publish(core, p, "ParamSubnet-"+zone, paramSubnet(zone), n.subnets[i].SubnetId())
	}
}

func publishGroup(core awscdk.Stack, p *plan, name string, g group) {
	publish(core, p, "ParamListener-"+name, paramGroup(name, groupListener), g.listener.ListenerArn())
	publish(core, p, "ParamAlbGroup-"+name, paramGroup(name, groupSG), g.sg.SecurityGroupId())
	publish(core, p, "ParamAlbDns-"+name, paramGroup(name, groupDNS), g.name)
	publish(core, p, "ParamAlbDnsZone-"+name, paramGroup(name, groupDNSZone), g.zone)
}

func publish(core awscdk.Stack, p *plan, id, path string, value *string) {
	awsssm.NewStringParameter(core, str(id), &awsssm.StringParameterProps{ParameterName: str(p.names.Param(path)), StringValue: value})
}

// reader reads the core stack's parameters in a shard's stack, as typed template parameters: those
// are compared at each deployment, while a dynamic reference keeps its first value for ever.
type reader struct {
	st awscdk.Stack
	p  *plan
}

func (r reader) get(path string, kind awsssm.ParameterValueType) string {
	return *awsssm.StringParameter_ValueForTypedStringParameterV2(r.st, str(r.p.names.Param(path)), kind, nil)
}

// securityGroup is a security group of the core stack. A shard never changes its rules: every shard
// of the cell depends on them.
func (r reader) securityGroup(id, path string) awsec2.ISecurityGroup {
	return awsec2.SecurityGroup_FromSecurityGroupId(r.st, str(id),
		str(r.get(path, awsssm.ParameterValueType_AWS_EC2_SECURITYGROUP_ID)), &awsec2.SecurityGroupImportOptions{Mutable: no})
}

// network is the cell's network as a shard's stack sees it, in these zones. A stack may declare no parameter that it
// does not use, so the router's security group is left to routerGroup.
func (r reader) network(zones []string) network {
	n := network{
		zones: zones,
		vpc: awsec2.Vpc_FromVpcAttributes(r.st, str("Vpc"), &awsec2.VpcAttributes{
			VpcId: str(r.get(paramVPC, awsssm.ParameterValueType_AWS_EC2_VPC_ID)), AvailabilityZones: strs(r.p.cell.ZoneNames()...)}),
		hosts: awsroute53.PrivateHostedZone_FromPrivateHostedZoneAttributes(r.st, str("Hosts"), &awsroute53.PrivateHostedZoneAttributes{
			HostedZoneId: str(r.get(paramHosts, awsssm.ParameterValueType_AWS_ROUTE53_HOSTEDZONE_ID)), ZoneName: str(r.p.names.Zone())}),
	}
	for _, zone := range zones {
		id := r.get(paramSubnet(zone), awsssm.ParameterValueType_AWS_EC2_SUBNET_ID)
		n.subnets = append(n.subnets, importedSubnet(r.st, r.p, zone, id))
	}
	return n
}

func (r reader) routerGroup() awsec2.ISecurityGroup {
	return r.securityGroup("RouterGroup", paramRouterGroup)
}

// group is a load balancer of the core stack as a shard's stack sees it.
func (r reader) group(name string) group {
	text := func(value string) *string {
		return str(r.get(paramGroup(name, value), awsssm.ParameterValueType_STRING))
	}
	sg := r.securityGroup("AlbGroup", paramGroup(name, groupSG))
	return group{
		sg:      sg,
		address: address{text(groupDNS), text(groupDNSZone)},
		listener: elb.ApplicationListener_FromApplicationListenerAttributes(r.st, str("Listener"), &elb.ApplicationListenerAttributes{
			ListenerArn: text(groupListener), SecurityGroup: sg}),
	}
}
