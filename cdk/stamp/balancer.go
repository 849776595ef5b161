package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	elb "github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
)

// listenerPort is the port of every load balancer. They are internal, and the router calls
// http://<names.Shard.Host>/.
const listenerPort = 80

// shardHeader is the header that tells shards apart behind a load balancer of several, as
// internal/routing sets it. Nobody but the router reaches the load balancers.
const shardHeader = "Cellwall-Shard"

// group is a load balancer that several shards stand behind.
type group struct {
	sg       awsec2.ISecurityGroup
	listener elb.IApplicationListener
	address
}

// address is the name that AWS gave a load balancer, and the hosted zone of that name.
type address struct{ name, zone *string }

func addressOf(alb elb.ApplicationLoadBalancer) address {
	return address{alb.LoadBalancerDnsName(), alb.LoadBalancerCanonicalHostedZoneId()}
}

// newGroup is the load balancer of a group, in the core stack. A request that names no shard of the
// group is answered 421, misdirected request, so that the router looks again.
func newGroup(core awscdk.Stack, p *plan, n network, name string) group {
	sg := newBalancerGroup(core, "AlbGroup-"+name, n)
	// Any port: the core is deployed before the shards, and must not cut off the shards that still listen
	// on the fleet's old one. The instances' own groups let in their one port.
	sg.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_TcpRange(num(1), num(65_535)), str("instances of the shards"), nil)
	alb := newBalancer(core, "Alb-"+name, p.names.GroupLoadBalancer(name), n, sg)
	return group{sg: sg, address: addressOf(alb), listener: newListener(alb, elb.ListenerAction_FixedResponse(num(421),
		&elb.FixedResponseOptions{ContentType: str("text/plain"), MessageBody: str("no such shard here")}))}
}

// join puts a shard's target group behind a group's load balancer: one rule, chosen by the header.
func (g group) join(st awscdk.Stack, s shardPlan, targets elb.ApplicationTargetGroup) {
	elb.NewApplicationListenerRule(st, str("Rule"), &elb.ApplicationListenerRuleProps{
		Listener:     g.listener,
		Priority:     num(s.priority),
		Conditions:   list(elb.ListenerCondition_HttpHeader(str(shardHeader), strs(s.id))),
		TargetGroups: list[elb.IApplicationTargetGroup](targets),
	})
}

func newBalancerGroup(st awscdk.Stack, id string, n network) awsec2.SecurityGroup {
	sg := awsec2.NewSecurityGroup(st, str(id), &awsec2.SecurityGroupProps{
		Vpc: n.vpc, AllowAllOutbound: no, Description: str("Load balancer: in from the router, out to instances")})
	sg.AddIngressRule(n.routerSG, awsec2.Port_Tcp(num(listenerPort)), str("router"), nil)
	return sg
}

func newBalancer(st awscdk.Stack, id, name string, n network, sg awsec2.ISecurityGroup) elb.ApplicationLoadBalancer {
	return elb.NewApplicationLoadBalancer(st, str(id), &elb.ApplicationLoadBalancerProps{
		LoadBalancerName: str(name), Vpc: n.vpc, VpcSubnets: n.placed(), SecurityGroup: sg,
		InternetFacing: no, DropInvalidHeaderFields: yes})
}

func newListener(alb elb.ApplicationLoadBalancer, otherwise elb.ListenerAction) elb.ApplicationListener {
	return alb.AddListener(str("Http"), &elb.BaseApplicationListenerProps{
		Port: num(listenerPort), Protocol: elb.ApplicationProtocol_HTTP, Open: no, DefaultAction: otherwise})
}

// nameBalancer gives a shard's load balancer the name that the router derives. The record is made from
// the bare CloudFormation type: the CDK's own wants the load balancer's ARN, which a record has no use
// for.
func nameBalancer(st awscdk.Stack, s shardPlan, n network, to address) {
	awsroute53.NewCfnRecordSet(st, str("Name"), &awsroute53.CfnRecordSetProps{
		HostedZoneId: n.hosts.HostedZoneId(), Name: str(s.names.Host() + "."), Type: str("A"),
		AliasTarget: &awsroute53.CfnRecordSet_AliasTargetProperty{DnsName: str("dualstack." + *to.name), HostedZoneId: to.zone}})
}
