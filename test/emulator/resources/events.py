"""EventBridge's rules on schedules. They are kept with their targets; nothing runs by them."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::Events::Rule")
class Rule(Handler):
    _APART = ("Targets",)

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        if "ScheduleExpression" not in p:
            raise ValidationError("the emulator has support for rules on schedules alone")
        name = p.get("Name") or at.name()
        client = at.client("events")
        arn = call(client, "PutRule", **{**without(p, *self._APART), "Name": name})["RuleArn"]
        self._aim(client, name, [], p.get("Targets", []))
        return Made(name, {"Arn": arn})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"Name", "EventBusName"}:
            return None
        client = at.client("events")
        call(client, "PutRule", **{**without(new, *self._APART), "Name": made.id})
        self._aim(client, made.id, old.get("Targets", []), new.get("Targets", []))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        client = at.client("events")
        self._aim(client, made.id, p.get("Targets", []), [])
        client.delete_rule(Name=made.id)

    def _aim(self, client: Any, rule: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
        if gone := sorted({target["Id"] for target in old} - {target["Id"] for target in new}):
            client.remove_targets(Rule=rule, Ids=gone)
        if new and call(client, "PutTargets", Rule=rule, Targets=new)["FailedEntryCount"]:
            raise ValidationError(f"EventBridge does not take the targets of rule {rule}")
