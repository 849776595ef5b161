"""VPCs: networks, routes, gateways, security groups, endpoints."""

import re
from typing import Any

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import specification, without


def _retag(at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> None:
    gone = {tag["Key"] for tag in old.get("Tags", [])} - {tag["Key"] for tag in new.get("Tags", [])}
    if gone:
        at.client("ec2").delete_tags(Resources=[made.id], Tags=[{"Key": key} for key in sorted(gone)])
    if new.get("Tags"):
        at.client("ec2").create_tags(Resources=[made.id], Tags=new["Tags"])


class _Tagged(Handler):
    """A resource of which only the tags change in place."""

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) != {"Tags"}:
            return None
        _retag(at, made, old, new)
        return made


@resource("AWS::EC2::VPC")
class Vpc(Handler):
    _DNS = ("EnableDnsSupport", "EnableDnsHostnames")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        ec2 = at.client("ec2")
        tags = specification("vpc", p)
        vpc = call(ec2, "CreateVpc", TagSpecifications=tags, **without(p, "Tags", *self._DNS))["Vpc"]["VpcId"]
        self._set_dns(at, vpc, p)
        groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["SecurityGroups"]
        default = next(group["GroupId"] for group in groups if group["GroupName"] == "default")
        return Made(vpc, {"VpcId": vpc, "CidrBlock": p["CidrBlock"], "DefaultSecurityGroup": default})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"Tags", *self._DNS}:
            return None
        self._set_dns(at, made.id, new)
        _retag(at, made, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_vpc(VpcId=made.id)

    def _set_dns(self, at: Place, vpc: str, p: dict[str, Any]) -> None:
        for name in self._DNS:
            if name in p:
                call(at.client("ec2"), "ModifyVpcAttribute", VpcId=vpc, **{name: {"Value": p[name]}})


@resource("AWS::EC2::Subnet")
class Subnet(_Tagged):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        ec2, public = at.client("ec2"), "MapPublicIpOnLaunch"
        made = call(ec2, "CreateSubnet", TagSpecifications=specification("subnet", p), **without(p, "Tags", public))["Subnet"]
        if public in p:
            call(ec2, "ModifySubnetAttribute", SubnetId=made["SubnetId"], **{public: {"Value": p[public]}})
        attributes = {"SubnetId": made["SubnetId"], "AvailabilityZone": made["AvailabilityZone"], "VpcId": p["VpcId"], "CidrBlock": p["CidrBlock"]}
        return Made(made["SubnetId"], attributes)

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_subnet(SubnetId=made.id)


@resource("AWS::EC2::InternetGateway")
class InternetGateway(_Tagged):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("ec2"), "CreateInternetGateway", TagSpecifications=specification("internet-gateway", p), **without(p, "Tags"))
        gateway = made["InternetGateway"]["InternetGatewayId"]
        return Made(gateway, {"InternetGatewayId": gateway})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_internet_gateway(InternetGatewayId=made.id)


@resource("AWS::EC2::VPCGatewayAttachment")
class GatewayAttachment(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        call(at.client("ec2"), "AttachInternetGateway", **p)
        return Made(f"IGW|{p['VpcId']}")

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        call(at.client("ec2"), "DetachInternetGateway", **p)


@resource("AWS::EC2::RouteTable")
class RouteTable(_Tagged):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("ec2"), "CreateRouteTable", TagSpecifications=specification("route-table", p), **without(p, "Tags"))
        table = made["RouteTable"]["RouteTableId"]
        return Made(table, {"RouteTableId": table})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_route_table(RouteTableId=made.id)


@resource("AWS::EC2::SubnetRouteTableAssociation")
class RouteTableAssociation(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        return Made(call(at.client("ec2"), "AssociateRouteTable", **p)["AssociationId"])

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").disassociate_route_table(AssociationId=made.id)


@resource("AWS::EC2::Route")
class Route(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        call(at.client("ec2"), "CreateRoute", **p)
        return Made(f"{p['RouteTableId']}|{self._destination(p)}")

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"RouteTableId", "DestinationCidrBlock", "DestinationIpv6CidrBlock"}:
            return None
        call(at.client("ec2"), "ReplaceRoute", **new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        keys = ("RouteTableId", "DestinationCidrBlock", "DestinationIpv6CidrBlock")
        call(at.client("ec2"), "DeleteRoute", **{key: p[key] for key in keys if key in p})

    def _destination(self, p: dict[str, Any]) -> str:
        return p.get("DestinationCidrBlock") or p["DestinationIpv6CidrBlock"]


@resource("AWS::EC2::EIP")
class ElasticIp(_Tagged):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("ec2"), "AllocateAddress", TagSpecifications=specification("elastic-ip", p), **without(p, "Tags"))
        return Made(made["PublicIp"], {"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        return made if super().update(at, Made(made.attributes["AllocationId"]), old, new) else None

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").release_address(AllocationId=made.attributes["AllocationId"])


@resource("AWS::EC2::NatGateway")
class NatGateway(_Tagged):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("ec2"), "CreateNatGateway", TagSpecifications=specification("natgateway", p), **without(p, "Tags"))
        gateway = made["NatGateway"]["NatGatewayId"]
        return Made(gateway, {"NatGatewayId": gateway})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_nat_gateway(NatGatewayId=made.id)


# Source: Amazon EC2 API, CreateSecurityGroup GroupDescription and IpRange Description. Moto takes anything.
_DESCRIPTION = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")


def _described(text: str) -> str:
    if not _DESCRIPTION.fullmatch(text):
        raise ValidationError(
            f"Invalid security group description {text!r}: at most 255 characters are valid, of a-z, A-Z, 0-9, spaces and ._-:/()#,@[]+=&;{{}}!$*")
    return text


_PEERS = {
    "CidrIp": "IpRanges",
    "CidrIpv6": "Ipv6Ranges",
    "SourceSecurityGroupId": "UserIdGroupPairs",
    "DestinationSecurityGroupId": "UserIdGroupPairs",
    "SourcePrefixListId": "PrefixListIds",
    "DestinationPrefixListId": "PrefixListIds",
}
_PEER_KEYS = {"IpRanges": "CidrIp", "Ipv6Ranges": "CidrIpv6", "UserIdGroupPairs": "GroupId", "PrefixListIds": "PrefixListId"}


def _permission(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule in the API's form: one protocol and port range, one peer."""
    result: dict[str, Any] = {}
    for name, value in rule.items():
        if name in ("IpProtocol", "FromPort", "ToPort"):
            result[name] = value
        elif name in _PEERS:
            kind = _PEERS[name]
            peer = {_PEER_KEYS[kind]: value}
            if "Description" in rule:
                peer["Description"] = _described(rule["Description"])
            result[kind] = [peer]
        elif name not in ("Description", "GroupId"):
            raise ValidationError(f"the emulator has no support for {name} in a security group rule")
    return result


def _rules(at: Place, group: str, verb: str, direction: str, rules: list[dict[str, Any]]) -> None:
    if rules:
        call(at.client("ec2"), f"{verb}SecurityGroup{direction}", GroupId=group, IpPermissions=[_permission(rule) for rule in rules])


@resource("AWS::EC2::SecurityGroup")
class SecurityGroup(Handler):
    _ALL = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        rest = without(p, "Tags", "GroupName", "GroupDescription", "SecurityGroupIngress", "SecurityGroupEgress")
        group = call(
            at.client("ec2"), "CreateSecurityGroup",
            GroupName=p.get("GroupName") or at.name(255), Description=_described(p["GroupDescription"]),
            TagSpecifications=specification("security-group", p), **rest,
        )["GroupId"]
        _rules(at, group, "Authorize", "Ingress", p.get("SecurityGroupIngress", []))
        if "SecurityGroupEgress" in p:  # else EC2's default stands: everything may leave
            _rules(at, group, "Revoke", "Egress", [self._ALL])
            _rules(at, group, "Authorize", "Egress", p["SecurityGroupEgress"])
        return Made(group, {"GroupId": group, "VpcId": p.get("VpcId", "")})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"GroupName", "GroupDescription", "VpcId"}:
            return None
        for direction, default in (("Ingress", []), ("Egress", [self._ALL])):
            before, after = (p.get(f"SecurityGroup{direction}", default) for p in (old, new))
            _rules(at, made.id, "Revoke", direction, [rule for rule in before if rule not in after])
            _rules(at, made.id, "Authorize", direction, [rule for rule in after if rule not in before])
        _retag(at, made, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_security_group(GroupId=made.id)


class _Rule(Handler):
    direction: str

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        _rules(at, p["GroupId"], "Authorize", self.direction, [p])
        return Made(at.name())

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made:
        _rules(at, old["GroupId"], "Revoke", self.direction, [old])
        _rules(at, new["GroupId"], "Authorize", self.direction, [new])
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        _rules(at, p["GroupId"], "Revoke", self.direction, [p])


@resource("AWS::EC2::SecurityGroupIngress")
class SecurityGroupIngress(_Rule):
    direction = "Ingress"


@resource("AWS::EC2::SecurityGroupEgress")
class SecurityGroupEgress(_Rule):
    direction = "Egress"


@resource("AWS::EC2::VPCEndpoint")
class VpcEndpoint(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("ec2"), "CreateVpcEndpoint", TagSpecifications=specification("vpc-endpoint", p), **without(p, "Tags"))
        endpoint = made["VpcEndpoint"]["VpcEndpointId"]
        return Made(endpoint, {"Id": endpoint})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"Tags", "RouteTableIds", "PolicyDocument"}:
            return None
        before, after = set(old.get("RouteTableIds", [])), set(new.get("RouteTableIds", []))
        call(
            at.client("ec2"), "ModifyVpcEndpoint", VpcEndpointId=made.id, PolicyDocument=new.get("PolicyDocument"),
            AddRouteTableIds=sorted(after - before) or None, RemoveRouteTableIds=sorted(before - after) or None,
        )
        _retag(at, made, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[made.id])
