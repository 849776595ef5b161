"""Alarms over other alarms."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::CloudWatch::CompositeAlarm")
class CompositeAlarm(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        name = p.get("AlarmName") or at.name(255)
        self._put(at, name, p)
        return Made(name, {"Arn": at.arn("cloudwatch", f"alarm:{name}")})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"AlarmName"}:
            return None
        self._put(at, made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("cloudwatch").delete_alarms(AlarmNames=[made.id])

    def _put(self, at: Place, name: str, p: dict[str, Any]) -> None:
        call(at.client("cloudwatch"), "PutCompositeAlarm", AlarmName=name, **without(p, "AlarmName"))
