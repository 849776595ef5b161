"""Roles and policies. They are kept and read back; nothing is judged by them."""

import json
from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::IAM::Role")
class Role(Handler):
    _APART = ("AssumeRolePolicyDocument", "ManagedPolicyArns", "Policies")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        iam = at.client("iam")
        document = json.dumps(p["AssumeRolePolicyDocument"])
        made = call(iam, "CreateRole", **{"RoleName": at.name(), **without(p, *self._APART)}, AssumeRolePolicyDocument=document)["Role"]
        name = made["RoleName"]
        self._attach(iam, name, {}, p)
        return Made(name, {"Arn": made["Arn"], "RoleId": made["RoleId"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {*self._APART, "Description", "MaxSessionDuration"}:
            return None
        iam = at.client("iam")
        iam.update_assume_role_policy(RoleName=made.id, PolicyDocument=json.dumps(new["AssumeRolePolicyDocument"]))
        call(iam, "UpdateRole", RoleName=made.id, Description=new.get("Description"), MaxSessionDuration=new.get("MaxSessionDuration"))
        self._attach(iam, made.id, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        iam = at.client("iam")
        self._attach(iam, made.id, p, {})
        iam.delete_role(RoleName=made.id)

    def _attach(self, iam: Any, role: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        before, after = set(old.get("ManagedPolicyArns", [])), set(new.get("ManagedPolicyArns", []))
        for arn in sorted(before - after):
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)
        for arn in sorted(after - before):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
        for policy in old.get("Policies", []):
            if policy["PolicyName"] not in kept:
                iam.delete_role_policy(RoleName=role, PolicyName=policy["PolicyName"])
        for policy in new.get("Policies", []):
            iam.put_role_policy(RoleName=role, PolicyName=policy["PolicyName"], PolicyDocument=json.dumps(policy["PolicyDocument"]))


@resource("AWS::IAM::Policy")
class Policy(Handler):
    """An inline policy of one or more roles."""

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        self._put(at, p, p["Roles"])
        return Made(at.name(), {"Id": p["PolicyName"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"PolicyName"}:
            return None
        self._remove(at, old, sorted(set(old["Roles"]) - set(new["Roles"])))
        self._put(at, new, new["Roles"])
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        self._remove(at, p, p["Roles"])

    def _put(self, at: Place, p: dict[str, Any], roles: list[str]) -> None:
        if unknown := set(p) - {"PolicyName", "PolicyDocument", "Roles"}:
            raise ValueError(f"the emulator has no support for {sorted(unknown)} of an inline policy")
        for role in roles:
            at.client("iam").put_role_policy(RoleName=role, PolicyName=p["PolicyName"], PolicyDocument=json.dumps(p["PolicyDocument"]))

    def _remove(self, at: Place, p: dict[str, Any], roles: list[str]) -> None:
        for role in roles:
            at.client("iam").delete_role_policy(RoleName=role, PolicyName=p["PolicyName"])


@resource("AWS::IAM::ManagedPolicy")
class ManagedPolicy(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        iam, name = at.client("iam"), p.get("ManagedPolicyName") or at.name(128)
        rest = without(p, "ManagedPolicyName", "PolicyDocument", "Roles")
        arn = call(iam, "CreatePolicy", PolicyName=name, PolicyDocument=json.dumps(p["PolicyDocument"]), **rest)["Policy"]["Arn"]
        for role in p.get("Roles", []):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        return Made(arn, {"PolicyArn": arn})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        iam = at.client("iam")
        for role in p.get("Roles", []):
            iam.detach_role_policy(RoleName=role, PolicyArn=made.id)
        iam.delete_policy(PolicyArn=made.id)


@resource("AWS::IAM::InstanceProfile")
class InstanceProfile(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        iam = at.client("iam")
        made = call(iam, "CreateInstanceProfile", **{"InstanceProfileName": at.name(128), **without(p, "Roles")})["InstanceProfile"]
        for role in p["Roles"]:
            iam.add_role_to_instance_profile(InstanceProfileName=made["InstanceProfileName"], RoleName=role)
        return Made(made["InstanceProfileName"], {"Arn": made["Arn"]})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        iam = at.client("iam")
        for role in p["Roles"]:
            iam.remove_role_from_instance_profile(InstanceProfileName=made.id, RoleName=role)
        iam.delete_instance_profile(InstanceProfileName=made.id)
