"""Creating, updating, rolling back and deleting the resources of one stack.

Stock moto reports success over resources that it never made, leaves a failed create standing, and
does not pass an update on to the resources that refer to the updated one. Here every resource's
properties are resolved anew on each update and compared with those it was made from; every failure is
an event and a status, and is rolled back.
"""

import traceback
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .. import templateonly
from ..accounts import Accounts
from . import obstacles
from .errors import ValidationError
from .handler import HANDLERS, Handler, Made, Place
from .intrinsics import Scope
from .stack import Content, Resource, Stack, now
from .template import dependency_order

_RETAINED = {"Retain", "RetainExceptOnCreate"}


class _TemplateOnly(Handler):
    """A type on the template-only list: an id, and attributes that say what they are."""

    class Attributes(dict[str, str]):
        def __init__(self, logical: str) -> None:
            super().__init__()
            self._logical = logical

        def __contains__(self, name: object) -> bool:
            return True

        def __missing__(self, name: str) -> str:
            return f"template-only:{self._logical}.{name}"

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        return Made(f"template-only:{at.logical}", self.Attributes(at.logical))

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made:
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class _Step:
    """A change that was made, for undoing it."""

    before: Resource | None
    after: Resource


class _Failure(Exception):
    """A resource could not be changed; its event stands already."""


class Deployment:
    """One stack on its way from what it is to what its new content says."""

    def __init__(self, accounts: Accounts, stack: Stack) -> None:
        self._accounts = accounts
        self._stack = stack
        self._steps: list[_Step] = []
        self._wanted: set[str] = set()

    def create(self, content: Content) -> None:
        """Makes the stack. It is CREATE_COMPLETE or ROLLBACK_COMPLETE afterwards."""
        stack = self._stack
        stack.content = content
        stack.enter("CREATE_IN_PROGRESS", "User Initiated")
        obstacles.wait(stack.name)
        try:
            self._forward(content)
        except _Failure as failure:
            stack.enter("ROLLBACK_IN_PROGRESS", str(failure))
            complete = self._backward()
            stack.enter("ROLLBACK_COMPLETE" if complete else "ROLLBACK_FAILED")
            return
        stack.enter("CREATE_COMPLETE")

    def update(self, content: Content) -> None:
        """Changes the stack. It is UPDATE_COMPLETE or UPDATE_ROLLBACK_COMPLETE afterwards."""
        stack = self._stack
        resources, outputs = dict(stack.resources), stack.outputs
        stack.updated = now()
        stack.enter("UPDATE_IN_PROGRESS", "User Initiated")
        obstacles.wait(stack.name)
        try:
            self._forward(content)
        except _Failure as failure:
            stack.enter("UPDATE_ROLLBACK_IN_PROGRESS", str(failure))
            complete = self._backward()
            if complete:
                stack.resources = {logical: stack.resources.get(logical, old) for logical, old in resources.items()}
            stack.outputs = outputs
            stack.enter("UPDATE_ROLLBACK_COMPLETE" if complete else "UPDATE_ROLLBACK_FAILED")
            return
        stack.content = content
        stack.enter("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean_up(resources)
        stack.enter("UPDATE_COMPLETE")

    def delete(self) -> None:
        """Deletes the stack. It is DELETE_COMPLETE or DELETE_FAILED afterwards."""
        stack = self._stack
        stack.enter("DELETE_IN_PROGRESS", "User Initiated")
        failed = []
        for resource in reversed(list(stack.resources.values())):
            if resource.on_delete in _RETAINED:
                stack.event(resource.logical, resource.type, resource.id, "DELETE_SKIPPED")
                del stack.resources[resource.logical]
            elif self._delete(resource):
                del stack.resources[resource.logical]
            else:
                failed.append(resource.logical)
        if failed:
            stack.enter("DELETE_FAILED", f"The following resource(s) failed to delete: {failed}.")
        else:
            stack.enter("DELETE_COMPLETE")

    def _forward(self, content: Content) -> None:
        stack = self._stack
        self._refuse_unknown_types(content.template)
        pseudo = {
            "AWS::AccountId": stack.account,
            "AWS::Region": stack.region,
            "AWS::StackId": stack.id,
            "AWS::StackName": stack.name,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
        }
        scope = Scope(content.template, pseudo, content.resolved, stack.resources)
        for logical in dependency_order(content.template):
            definition = content.template["Resources"][logical]
            if "Condition" not in definition or scope.condition(definition["Condition"]):
                self._wanted.add(logical)
                self._change(logical, definition, scope)
        stack.outputs = self._trying("Outputs", "AWS::CloudFormation::Stack", "UPDATE_FAILED", lambda: _outputs(content.template, scope))
        if obstacles.has(stack.name, "fail"):
            raise _Failure("a test has put this in the way of the stack")

    def _refuse_unknown_types(self, template: dict[str, Any]) -> None:
        for logical, definition in template["Resources"].items():
            if handler_of(definition["Type"]) is None:
                reason = f"the emulator has no support for {definition['Type']}"
                self._stack.event(logical, definition["Type"], "", "CREATE_FAILED", reason)
                raise _Failure(reason)

    def _change(self, logical: str, definition: dict[str, Any], scope: Scope) -> None:
        stack, kind = self._stack, definition["Type"]
        before = stack.resources.get(logical)
        if before is not None and before.type != kind:
            raise _Failure(f"Update of resource type is not permitted: {logical}")
        verb = "CREATE" if before is None else "UPDATE"
        properties = self._trying(logical, kind, f"{verb}_FAILED", lambda: scope.value(definition.get("Properties", {})))
        policies = {
            "on_delete": definition.get("DeletionPolicy", "Delete"),
            "on_replace": definition.get("UpdateReplacePolicy", "Delete"),
        }
        if before is not None and before.properties == properties:
            stack.resources[logical] = replace(before, **policies)
            return
        stack.event(logical, kind, before.id if before else "", f"{verb}_IN_PROGRESS")
        handler, at = handler_of(kind), self._place(logical)
        assert handler is not None  # refused before
        made = self._trying(logical, kind, f"{verb}_FAILED", lambda: (
            (handler.update(at, before.made, before.properties, properties) if before else None)
            or handler.create(at, properties)
        ))
        after = Resource(logical, kind, made, properties, **policies)
        stack.resources[logical] = after
        self._steps.append(_Step(before, after))
        stack.event(logical, kind, made.id, f"{verb}_COMPLETE")

    def _backward(self) -> bool:
        """Undoes the steps, last first; whether all could be undone."""
        complete = not obstacles.has(self._stack.name, "stuck")
        for step in reversed(self._steps):
            before, after = step.before, step.after
            if before is None or before.id != after.id:
                # Made in this attempt. Plain Retain leaves it standing, as on AWS.
                kept = before is None and after.on_delete == "Retain"
                complete &= kept or self._delete(after)
                if before is None:
                    del self._stack.resources[after.logical]
                else:
                    self._stack.resources[after.logical] = before
                continue
            handler = handler_of(before.type)
            assert handler is not None
            try:
                made = handler.update(self._place(before.logical), after.made, after.properties, before.properties)
                self._stack.resources[before.logical] = replace(before, made=made or before.made)
                self._stack.event(before.logical, before.type, before.id, "UPDATE_COMPLETE")
            except Exception as error:  # as in _trying
                complete = False
                self._stack.event(before.logical, before.type, before.id, "UPDATE_FAILED", _reason(error))
        return complete

    def _clean_up(self, before: dict[str, Resource]) -> None:
        """Deletes what is no longer wanted or was replaced."""
        stack = self._stack
        for old in reversed(list(before.values())):
            gone = old.logical not in self._wanted
            replaced = not gone and stack.resources[old.logical].id != old.id
            if gone:
                del stack.resources[old.logical]
            if (gone and old.on_delete in _RETAINED) or (replaced and old.on_replace in _RETAINED):
                stack.event(old.logical, old.type, old.id, "DELETE_SKIPPED")
            elif gone or replaced:
                self._delete(old)

    def _delete(self, resource: Resource) -> bool:
        stack, handler = self._stack, handler_of(resource.type)
        assert handler is not None
        stack.event(resource.logical, resource.type, resource.id, "DELETE_IN_PROGRESS")
        try:
            handler.delete(self._place(resource.logical), resource.made, resource.properties)
        except Exception as error:  # as in _trying
            if not _is_gone(error):
                stack.event(resource.logical, resource.type, resource.id, "DELETE_FAILED", _reason(error))
                return False
        stack.event(resource.logical, resource.type, resource.id, "DELETE_COMPLETE")
        return True

    def _trying(self, logical: str, kind: str, status: str, action: Any) -> Any:
        try:
            return action()
        except Exception as error:  # whatever goes wrong is an event, never HTTP 500
            if not isinstance(error, (BotoCoreError, ClientError, ValidationError)):
                traceback.print_exc()  # a fault of the emulator itself
            reason = _reason(error)
            self._stack.event(logical, kind, "", status, reason)
            raise _Failure(f"The following resource(s) failed: [{logical}]. {reason}") from error

    def _place(self, logical: str) -> Place:
        stack = self._stack
        return Place(self._accounts, stack.account, stack.region, stack.name, logical)


def handler_of(kind: str) -> Handler | None:
    """The handler of a resource type; None when the type is unknown."""
    return _TEMPLATE_ONLY if kind in templateonly.TYPES else HANDLERS.get(kind)


_TEMPLATE_ONLY = _TemplateOnly()


def _outputs(template: dict[str, Any], scope: Scope) -> list[dict[str, str]]:
    outputs = []
    for key, output in (template.get("Outputs") or {}).items():
        if "Condition" in output and not scope.condition(output["Condition"]):
            continue
        shown = {"OutputKey": key, "OutputValue": str(scope.value(output["Value"])), "Description": output.get("Description")}
        if "Export" in output:
            shown["ExportName"] = scope.value(output["Export"]["Name"])
        outputs.append(shown)
    return outputs


def _reason(error: Exception) -> str:
    return getattr(error, "message", None) or f"{type(error).__name__}: {error}"


def _is_gone(error: Exception) -> bool:
    """Whether deleting failed because the resource is not there: that is a success."""
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    return "NotFound" in code or code in ("NoSuchEntity", "NoSuchBucket", "NoSuchHostedZone", "AWS.SimpleQueueService.NonExistentQueue", "ResourceNotFoundException")
