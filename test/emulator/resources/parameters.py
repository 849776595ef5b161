"""SSM parameters and ECR repositories (the latter for CDK's bootstrap)."""

import json
from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::SSM::Parameter")
class Parameter(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        name = p.get("Name") or at.name(1011)
        tags = [{"Key": key, "Value": value} for key, value in p["Tags"].items()] if p.get("Tags") else None
        call(at.client("ssm"), "PutParameter", Name=name, Tags=tags, **without(p, "Name", "Tags"))
        return self._made(name, p)

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"Name", "Tags"}:
            return None
        call(at.client("ssm"), "PutParameter", Name=made.id, Overwrite=True, **without(new, "Name", "Tags"))
        return self._made(made.id, new)

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ssm").delete_parameter(Name=made.id)

    def _made(self, name: str, p: dict[str, Any]) -> Made:
        return Made(name, {"Type": p["Type"], "Value": p["Value"]})


@resource("AWS::ECR::Repository")
class Repository(Handler):
    _APART = ("RepositoryName", "LifecyclePolicy", "RepositoryPolicyText", "ImageTagMutability", "ImageScanningConfiguration")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client, name = at.client("ecr"), p.get("RepositoryName") or at.name(256).lower()
        made = call(
            client, "CreateRepository", repositoryName=name, imageTagMutability=p.get("ImageTagMutability"),
            imageScanningConfiguration={"scanOnPush": p["ImageScanningConfiguration"]["ScanOnPush"]} if "ImageScanningConfiguration" in p else None,
            **without(p, *self._APART),
        )["repository"]
        self._set_policies(client, name, p)
        return Made(name, {"Arn": made["repositoryArn"], "RepositoryUri": made["repositoryUri"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"LifecyclePolicy", "RepositoryPolicyText"}:
            return None
        self._set_policies(at.client("ecr"), made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ecr").delete_repository(repositoryName=made.id, force=True)

    def _set_policies(self, client: Any, name: str, p: dict[str, Any]) -> None:
        if "LifecyclePolicy" in p:
            client.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=p["LifecyclePolicy"]["LifecyclePolicyText"])
        if "RepositoryPolicyText" in p:
            client.set_repository_policy(repositoryName=name, policyText=json.dumps(p["RepositoryPolicyText"]))
