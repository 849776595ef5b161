"""CloudWatch's alarms over other alarms are made, read back, and hold on to what they are over.

Stock moto has none, though its records can bear their rule. As on AWS an alarm over one that is not there is
not made, and an alarm that another is over is not deleted before that. Module alarms evaluates them when the state
of one below changes.

Source: Amazon CloudWatch API, PutCompositeAlarm and DeleteAlarms.
"""

import re
from typing import Any

from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import EmptyResult

_LONGEST_RULE = 10_240  # characters
_MOST_CHILDREN = 100
_CHILD = re.compile(r"""(?:ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*["']?([^"')]+?)["']?\s*\)""")
_STATE = re.compile(r"""(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*["']?(?P<name>[^"')]+?)["']?\s*\)""")
_WORDS = re.compile(r"[\s()]*(?:(?:AND|OR|NOT|TRUE|FALSE)[\s()]*)*")


def children(rule: str) -> set[str]:
    """The names of the alarms in a rule."""
    return {name.rpartition(":alarm:")[2] for name in _CHILD.findall(rule)}


def rings(rule: str, states: dict[str, str]) -> bool:
    """Whether a rule that was taken holds, by the states of the alarms in it."""
    read = _STATE.sub(lambda m: str(states[m["name"].rpartition(":alarm:")[2]] == m["state"]), rule)
    words = {"AND": "and", "OR": "or", "NOT": "not", "TRUE": "True", "FALSE": "False"}
    return bool(eval(re.sub("[A-Z]{2,}", lambda m: words[m.group()], read), {"__builtins__": {}}))  # nothing but these words and brackets


def install() -> None:
    """Adds the API, and has DeleteAlarms refuse what another alarm is over."""
    delete = CloudWatchBackend.delete_alarms

    def put_composite_alarm(self: CloudWatchResponse) -> EmptyResult:
        rule, backend = self._get_param("AlarmRule"), self.cloudwatch_backend
        if len(rule) > _LONGEST_RULE or len(children(rule)) > _MOST_CHILDREN or not _WORDS.fullmatch(_CHILD.sub("", rule)):
            raise ValidationError(f"AlarmRule is too long, is over too many alarms, or is no rule: {rule}")
        if missing := sorted(children(rule) - set(list(backend.alarms))):
            raise ValidationError(f"Could not save the composite alarm as alarms {missing} in the alarm rule do not exist")
        names = ("Namespace", "MetricName", "ComparisonOperator", "EvaluationPeriods", "Period", "Threshold", "Statistic")
        none: dict[str, Any] = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): None for name in names}
        alarm = backend.put_metric_alarm(
            name=self._get_param("AlarmName"), description=self._get_param("AlarmDescription"), rule=rule, dimensions=[],
            alarm_actions=self._get_param("AlarmActions", []), ok_actions=self._get_param("OKActions", []),
            insufficient_data_actions=self._get_param("InsufficientDataActions", []),
            actions_enabled=self._get_bool_param("ActionsEnabled", True), tags=self._get_param("Tags", []), **none,
        )
        alarm.alarm_rule = rule
        return EmptyResult()

    def delete_alarms(self: CloudWatchBackend, alarm_names: list[str]) -> None:
        for alarm in list(self.alarms.values()):  # others may come and go meanwhile
            if alarm.rule and alarm.name not in alarm_names and (held := sorted(children(alarm.rule) & set(alarm_names))):
                raise ValidationError(f"Alarms {held} cannot be deleted as there are composite alarms depending on them: {alarm.name}")
        delete(self, alarm_names)

    CloudWatchResponse.put_composite_alarm = put_composite_alarm
    CloudWatchBackend.delete_alarms = delete_alarms
