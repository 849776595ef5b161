"""Hosted zones and their records."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::Route53::HostedZone")
class HostedZone(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client, networks = at.client("route53"), p.get("VPCs", [])
        made = call(
            client, "CreateHostedZone", CallerReference=at.name(128), **without(p, "VPCs", "HostedZoneConfig", "HostedZoneTags"),
            HostedZoneConfig={**p.get("HostedZoneConfig", {}), "PrivateZone": bool(networks)}, VPC=networks[0] if networks else None,
        )
        zone = made["HostedZone"]["Id"].rpartition("/")[2]
        for network in networks[1:]:
            call(client, "AssociateVPCWithHostedZone", HostedZoneId=zone, VPC=network)
        if p.get("HostedZoneTags"):
            client.change_tags_for_resource(ResourceType="hostedzone", ResourceId=zone, AddTags=p["HostedZoneTags"])
        return Made(zone, {"Id": zone, "NameServers": made.get("DelegationSet", {}).get("NameServers", [])})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"HostedZoneTags"}:
            return None
        at.client("route53").change_tags_for_resource(ResourceType="hostedzone", ResourceId=made.id, AddTags=new.get("HostedZoneTags", []))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("route53").delete_hosted_zone(Id=made.id)


@resource("AWS::Route53::RecordSet")
class RecordSet(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        self._change(at, "CREATE", p)
        return Made(p["Name"])

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"Name", "HostedZoneId", "Type", "SetIdentifier"}:
            return None
        self._change(at, "UPSERT", new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        self._change(at, "DELETE", p)

    def _change(self, at: Place, action: str, p: dict[str, Any]) -> None:
        record = without(p, "HostedZoneId", "Comment", "ResourceRecords", "AliasTarget")
        if "ResourceRecords" in p:
            record["ResourceRecords"] = [{"Value": value} for value in p["ResourceRecords"]]
        if "AliasTarget" in p:
            record["AliasTarget"] = {"EvaluateTargetHealth": False, **p["AliasTarget"]}
        changes = {"Changes": [{"Action": action, "ResourceRecordSet": record}]}
        call(at.client("route53"), "ChangeResourceRecordSets", HostedZoneId=p["HostedZoneId"], ChangeBatch=changes)
