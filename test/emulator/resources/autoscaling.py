"""Auto Scaling groups. Their instances are moto's: records, not machines."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without

# What the API takes in another form, or in another call.
_APART = {"VPCZoneIdentifier", "Tags", "MetricsCollection", "AutoScalingGroupName"}


@resource("AWS::AutoScaling::AutoScalingGroup")
class AutoScalingGroup(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        name = p.get("AutoScalingGroupName") or at.name(255)
        client = at.client("autoscaling")
        tags = [{**tag, "ResourceId": name, "ResourceType": "auto-scaling-group"} for tag in p.get("Tags", [])]
        call(client, "CreateAutoScalingGroup", AutoScalingGroupName=name, Tags=tags, **self._settings(p), **self._targets(p))
        for metrics in p.get("MetricsCollection", []):
            call(client, "EnableMetricsCollection", AutoScalingGroupName=name, **metrics)
        return Made(name, {"AutoScalingGroupARN": self._describe(client, name)["AutoScalingGroupARN"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"AutoScalingGroupName"}:
            return None
        if unchangeable := changed(old, new) & {"Tags", "MetricsCollection"}:
            raise ValidationError(f"the emulator cannot change {sorted(unchangeable)} of an Auto Scaling group")
        client, name = at.client("autoscaling"), made.id
        call(client, "UpdateAutoScalingGroup", AutoScalingGroupName=name, **self._settings(new))
        before, after = set(old.get("TargetGroupARNs", [])), set(new.get("TargetGroupARNs", []))
        if before - after:
            client.detach_load_balancer_target_groups(AutoScalingGroupName=name, TargetGroupARNs=sorted(before - after))
        if after - before:
            client.attach_load_balancer_target_groups(AutoScalingGroupName=name, TargetGroupARNs=sorted(after - before))
        if old.get("LaunchTemplate") != new.get("LaunchTemplate"):
            self._roll(client, name)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=made.id, ForceDelete=True)

    def _settings(self, p: dict[str, Any]) -> dict[str, Any]:
        settings = without(p, "TargetGroupARNs", *_APART)
        if "VPCZoneIdentifier" in p:
            settings["VPCZoneIdentifier"] = ",".join(p["VPCZoneIdentifier"])
        return settings

    def _targets(self, p: dict[str, Any]) -> dict[str, Any]:
        return {"TargetGroupARNs": p["TargetGroupARNs"]} if "TargetGroupARNs" in p else {}

    def _describe(self, client: Any, name: str) -> dict[str, Any]:
        return client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]

    def _roll(self, client: Any, name: str) -> None:
        """AutoScalingRollingUpdate: replaces every instance, with the new launch template version."""
        for instance in self._describe(client, name)["Instances"]:
            client.terminate_instance_in_auto_scaling_group(InstanceId=instance["InstanceId"], ShouldDecrementDesiredCapacity=False)


@resource("AWS::AutoScaling::ScalingPolicy")
class ScalingPolicy(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client, name, group = at.client("autoscaling"), p.get("PolicyName") or at.name(), p["AutoScalingGroupName"]
        call(client, "PutScalingPolicy", PolicyName=name, **without(p, "PolicyName"))
        # Stock moto's answer misspells the ARN's name.
        arn = client.describe_policies(AutoScalingGroupName=group, PolicyNames=[name])["ScalingPolicies"][0]["PolicyARN"]
        return Made(arn, {"Arn": arn, "PolicyName": name})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"AutoScalingGroupName", "PolicyName"}:
            return None
        call(at.client("autoscaling"), "PutScalingPolicy", PolicyName=made.attributes["PolicyName"], **without(new, "PolicyName"))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("autoscaling").delete_policy(AutoScalingGroupName=p["AutoScalingGroupName"], PolicyName=made.attributes["PolicyName"])
