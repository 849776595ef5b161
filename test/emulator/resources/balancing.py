"""Application Load Balancers: balancers, target groups, listeners, rules."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


def _full_name(arn: str, kind: str) -> str:
    """The part of an ARN that CloudWatch's dimensions use."""
    return arn.split(f":{kind}", 1)[1]


def _retag(client: Any, arn: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    gone = {tag["Key"] for tag in old.get("Tags", [])} - {tag["Key"] for tag in new.get("Tags", [])}
    if gone:
        client.remove_tags(ResourceArns=[arn], TagKeys=sorted(gone))
    if new.get("Tags"):
        client.add_tags(ResourceArns=[arn], Tags=new["Tags"])


@resource("AWS::ElasticLoadBalancingV2::LoadBalancer")
class LoadBalancer(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client = at.client("elbv2")
        made = call(client, "CreateLoadBalancer", **{"Name": at.name(32), **without(p, "LoadBalancerAttributes")})["LoadBalancers"][0]
        arn = made["LoadBalancerArn"]
        self._set_attributes(client, arn, p)
        return Made(arn, {
            "LoadBalancerArn": arn,
            "DNSName": made["DNSName"],
            "CanonicalHostedZoneID": made["CanonicalHostedZoneId"],
            "LoadBalancerName": made["LoadBalancerName"],
            "LoadBalancerFullName": _full_name(arn, "loadbalancer/"),
            "SecurityGroups": made.get("SecurityGroups", []),
        })

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        moved = changed(old, new)
        if moved - {"LoadBalancerAttributes", "Subnets", "SecurityGroups", "Tags"}:
            return None
        client = at.client("elbv2")
        if "Subnets" in moved:
            client.set_subnets(LoadBalancerArn=made.id, Subnets=new["Subnets"])
        if "SecurityGroups" in moved:
            client.set_security_groups(LoadBalancerArn=made.id, SecurityGroups=new["SecurityGroups"])
        self._set_attributes(client, made.id, new)
        _retag(client, made.id, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("elbv2").delete_load_balancer(LoadBalancerArn=made.id)

    def _set_attributes(self, client: Any, arn: str, p: dict[str, Any]) -> None:
        if p.get("LoadBalancerAttributes"):
            call(client, "ModifyLoadBalancerAttributes", LoadBalancerArn=arn, Attributes=p["LoadBalancerAttributes"])


@resource("AWS::ElasticLoadBalancingV2::TargetGroup")
class TargetGroup(Handler):
    _FIXED = {"Name", "Port", "Protocol", "ProtocolVersion", "TargetType", "VpcId", "IpAddressType"}
    _APART = ("TargetGroupAttributes", "Targets")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client = at.client("elbv2")
        arn = call(client, "CreateTargetGroup", **{"Name": at.name(32), **without(p, *self._APART)})["TargetGroups"][0]["TargetGroupArn"]
        self._set_attributes(client, arn, p)
        if p.get("Targets"):
            call(client, "RegisterTargets", TargetGroupArn=arn, Targets=p["Targets"])
        name = "targetgroup/" + _full_name(arn, "targetgroup/")
        return Made(arn, {"TargetGroupArn": arn, "TargetGroupFullName": name, "TargetGroupName": name.split("/")[1]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & (self._FIXED | {"Targets"}):
            return None
        client = at.client("elbv2")
        call(client, "ModifyTargetGroup", TargetGroupArn=made.id, **without(new, "Tags", *self._APART, *self._FIXED))
        self._set_attributes(client, made.id, new)
        _retag(client, made.id, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("elbv2").delete_target_group(TargetGroupArn=made.id)

    def _set_attributes(self, client: Any, arn: str, p: dict[str, Any]) -> None:
        if p.get("TargetGroupAttributes"):
            call(client, "ModifyTargetGroupAttributes", TargetGroupArn=arn, Attributes=p["TargetGroupAttributes"])


@resource("AWS::ElasticLoadBalancingV2::Listener")
class Listener(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        arn = call(at.client("elbv2"), "CreateListener", **p)["Listeners"][0]["ListenerArn"]
        return Made(arn, {"ListenerArn": arn})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"LoadBalancerArn"}:
            return None
        call(at.client("elbv2"), "ModifyListener", ListenerArn=made.id, **without(new, "LoadBalancerArn"))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("elbv2").delete_listener(ListenerArn=made.id)


@resource("AWS::ElasticLoadBalancingV2::ListenerRule")
class ListenerRule(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        arn = call(at.client("elbv2"), "CreateRule", **p)["Rules"][0]["RuleArn"]
        return Made(arn, {"RuleArn": arn})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"ListenerArn"}:
            return None
        client = at.client("elbv2")
        call(client, "ModifyRule", RuleArn=made.id, Conditions=new["Conditions"], Actions=new["Actions"])
        if old["Priority"] != new["Priority"]:
            call(client, "SetRulePriorities", RulePriorities=[{"RuleArn": made.id, "Priority": new["Priority"]}])
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("elbv2").delete_rule(RuleArn=made.id)
