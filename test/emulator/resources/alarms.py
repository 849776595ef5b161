"""Log groups, alarms, dashboards and insight rules. Moto's alarms are kept, never evaluated: tests set their state."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import mapping, without


@resource("AWS::Logs::LogGroup")
class LogGroup(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client, name = at.client("logs"), p.get("LogGroupName") or at.name(512)
        call(client, "CreateLogGroup", logGroupName=name, kmsKeyId=p.get("KmsKeyId"), logGroupClass=p.get("LogGroupClass"), tags=mapping(p) or None)
        self._retain(client, name, p)
        if unknown := set(p) - {"LogGroupName", "KmsKeyId", "LogGroupClass", "Tags", "RetentionInDays"}:
            raise ValueError(f"the emulator has no support for {sorted(unknown)} of a log group")
        return Made(name, {"Arn": at.arn("logs", f"log-group:{name}:*")})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"RetentionInDays"}:
            return None
        self._retain(at.client("logs"), made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("logs").delete_log_group(logGroupName=made.id)

    def _retain(self, client: Any, name: str, p: dict[str, Any]) -> None:
        if "RetentionInDays" in p:
            call(client, "PutRetentionPolicy", logGroupName=name, retentionInDays=p["RetentionInDays"])
        else:
            client.delete_retention_policy(logGroupName=name)


class _Alarm(Handler):
    operation: str  # which makes one, or changes it

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
        call(at.client("cloudwatch"), self.operation, AlarmName=name, **without(p, "AlarmName"))


@resource("AWS::CloudWatch::Alarm")
class MetricAlarm(_Alarm):
    operation = "PutMetricAlarm"


@resource("AWS::CloudWatch::CompositeAlarm")
class CompositeAlarm(_Alarm):
    operation = "PutCompositeAlarm"


@resource("AWS::CloudWatch::Dashboard")
class Dashboard(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        name = p.get("DashboardName") or at.name(255)
        self._put(at, name, p)
        return Made(name, {})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"DashboardName"}:
            return None
        self._put(at, made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("cloudwatch").delete_dashboards(DashboardNames=[made.id])

    def _put(self, at: Place, name: str, p: dict[str, Any]) -> None:
        call(at.client("cloudwatch"), "PutDashboard", DashboardName=name, **without(p, "DashboardName"))


@resource("AWS::CloudWatch::InsightRule")
class InsightRule(Handler):
    """A rule is kept, and counts nothing: no line of a log reaches it."""

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        name = p["RuleName"]
        self._put(at, name, p)
        return Made(name, {"Arn": at.arn("cloudwatch", f"insight-rule/{name}"), "RuleName": name})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"RuleName"}:
            return None
        self._put(at, made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("cloudwatch").delete_insight_rules(RuleNames=[made.id])

    def _put(self, at: Place, name: str, p: dict[str, Any]) -> None:
        call(at.client("cloudwatch"), "PutInsightRule", RuleName=name, RuleDefinition=p["RuleBody"], **without(p, "RuleName", "RuleBody"))
