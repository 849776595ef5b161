"""Functions, versions, aliases, permissions, URLs, event source mappings."""

from typing import Any

from botocore.exceptions import ClientError

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import mapping, without


@resource("AWS::Lambda::Function")
class Function(Handler):
    _APART = ("Tags", "ReservedConcurrentExecutions", "RecursiveLoop")
    _FIXED = {"FunctionName", "PackageType"}

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client = at.client("lambda")
        if "ZipFile" in p["Code"]:
            raise ValidationError("the emulator has no support for code that stands in the template; put it into a bucket")
        made = call(client, "CreateFunction", **{"FunctionName": at.name(), **without(p, *self._APART)}, Tags=mapping(p))
        self._reserve(client, made["FunctionName"], p)
        self._recur(client, made["FunctionName"], p)
        return Made(made["FunctionName"], {"Arn": made["FunctionArn"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        moved = changed(old, new)
        if moved & self._FIXED:
            return None
        client = at.client("lambda")
        if moved & {"Code", "Architectures"}:
            call(client, "UpdateFunctionCode", FunctionName=made.id, Architectures=new.get("Architectures"), **new["Code"])
        if moved - {"Code", "Architectures", *self._APART}:
            call(client, "UpdateFunctionConfiguration", FunctionName=made.id, **without(new, "Code", "Architectures", *self._APART, *self._FIXED))
        before, after = mapping(old), mapping(new)
        if gone := sorted(before.keys() - after.keys()):
            client.untag_resource(Resource=made.attributes["Arn"], TagKeys=gone)
        if before != after and after:
            client.tag_resource(Resource=made.attributes["Arn"], Tags=after)
        self._reserve(client, made.id, new)
        if "RecursiveLoop" in moved:
            self._recur(client, made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("lambda").delete_function(FunctionName=made.id)

    def _reserve(self, client: Any, function: str, p: dict[str, Any]) -> None:
        """Stock moto forgets this on update."""
        if "ReservedConcurrentExecutions" in p:
            call(client, "PutFunctionConcurrency", FunctionName=function, ReservedConcurrentExecutions=p["ReservedConcurrentExecutions"])
        else:
            client.delete_function_concurrency(FunctionName=function)

    def _recur(self, client: Any, function: str, p: dict[str, Any]) -> None:
        call(client, "PutFunctionRecursionConfig", FunctionName=function, RecursiveLoop=p.get("RecursiveLoop", "Terminate"))


@resource("AWS::Lambda::Version")
class Version(Handler):
    """Published once; CDK gives a new logical id when the function changes."""

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("lambda"), "PublishVersion", **p)
        arn = made["FunctionArn"]
        return Made(arn, {"Version": made["Version"], "FunctionArn": arn})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("lambda").delete_function(FunctionName=p["FunctionName"], Qualifier=made.attributes["Version"])


@resource("AWS::Lambda::Alias")
class Alias(Handler):
    _PROVISIONED = "ProvisionedConcurrencyConfig"

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = self._made(call(at.client("lambda"), "CreateAlias", **without(p, self._PROVISIONED)))
        try:
            self._provision(at, {}, p)
        except ClientError:
            self.delete(at, made, p)
            raise
        return made

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"FunctionName", "Name"}:
            return None
        made = self._made(call(at.client("lambda"), "UpdateAlias", **without(new, self._PROVISIONED)))
        self._provision(at, old, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("lambda").delete_alias(FunctionName=p["FunctionName"], Name=p["Name"])

    def _provision(self, at: Place, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Has environments kept started, which is a record of its own."""
        client, alias = at.client("lambda"), {"FunctionName": new["FunctionName"], "Qualifier": new["Name"]}
        if self._PROVISIONED in new:
            call(client, "PutProvisionedConcurrencyConfig", **alias, **new[self._PROVISIONED])
        elif self._PROVISIONED in old:
            client.delete_provisioned_concurrency_config(**alias)

    def _made(self, alias: dict[str, Any]) -> Made:
        return Made(alias["AliasArn"], {"AliasArn": alias["AliasArn"]})


@resource("AWS::Lambda::Permission")
class Permission(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        self._refuse_strangers(at, p["Principal"])
        statement = at.name(100)
        call(at.client("lambda"), "AddPermission", StatementId=statement, **self._target(p), **without(p, "FunctionName"))
        return Made(statement, {"Id": statement})

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        call(at.client("lambda"), "RemovePermission", StatementId=made.id, **self._target(p))

    def _refuse_strangers(self, at: Place, principal: str) -> None:
        """Lambda takes a role as principal only while it exists; stock moto takes any text."""
        parts = principal.split(":")
        if len(parts) != 6 or not parts[5].startswith("role/"):
            return
        try:
            at.accounts.client("iam", parts[4], at.region).get_role(RoleName=parts[5].rpartition("/")[2])
        except ClientError as error:
            raise ValidationError(f"The provided principal was invalid. Please check the principal and try again: {principal}") from error

    def _target(self, p: dict[str, Any]) -> dict[str, Any]:
        """Moto takes the function's name alone; a qualifier in an ARN goes beside it."""
        parts = p["FunctionName"].split(":")
        if len(parts) < 7:
            return {"FunctionName": p["FunctionName"]}
        return {"FunctionName": parts[6], **({"Qualifier": parts[7]} if len(parts) > 7 else {})}


@resource("AWS::Lambda::Url")
class Url(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("lambda"), "CreateFunctionUrlConfig", FunctionName=p["TargetFunctionArn"], **without(p, "TargetFunctionArn"))
        return Made(made["FunctionArn"], {"FunctionArn": made["FunctionArn"], "FunctionUrl": made["FunctionUrl"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"TargetFunctionArn", "Qualifier"}:
            return None
        call(at.client("lambda"), "UpdateFunctionUrlConfig", FunctionName=new["TargetFunctionArn"], **without(new, "TargetFunctionArn"))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        call(at.client("lambda"), "DeleteFunctionUrlConfig", FunctionName=p["TargetFunctionArn"], Qualifier=p.get("Qualifier"))


@resource("AWS::Lambda::EventSourceMapping")
class EventSourceMapping(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        made = call(at.client("lambda"), "CreateEventSourceMapping", Tags=mapping(p) or None, **without(p, "Tags"))
        return Made(made["UUID"], {"Id": made["UUID"], "EventSourceMappingArn": made.get("EventSourceMappingArn", "")})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"EventSourceArn", "StartingPosition", "Tags"}:
            return None
        call(at.client("lambda"), "UpdateEventSourceMapping", UUID=made.id, **without(new, "EventSourceArn", "StartingPosition", "Tags"))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("lambda").delete_event_source_mapping(UUID=made.id)
