"""CloudWatch's alarms are listed by kind and in pages, keep their state when they are changed, and have a history.

Stock moto lists alarms over other alarms to whoever asks for alarms, all at once, where AWS leaves them out unless they
are asked for; has no DescribeAlarmHistory; and an alarm that is changed is a new one, which is well. None is ever evaluated
on metrics: tests set states, and an alarm over others follows these. A new alarm is OK at once, where AWS first says
INSUFFICIENT_DATA.

Source: Amazon CloudWatch API, DescribeAlarms, DescribeAlarmHistory, PutMetricAlarm and SetAlarmState.
"""

import json
import threading
from typing import Any

from moto.cloudwatch.exceptions import InvalidParameterCombination, ValidationError
from moto.cloudwatch.models import Alarm, CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult
from moto.core.utils import utcnow

from . import composites

_METRIC, _COMPOSITE = "MetricAlarm", "CompositeAlarm"
_MOST_NAMES = _LONGEST_PAGE = 100
_PAGE = 50
_lock = threading.RLock()


def _kind(alarm: Alarm) -> str:
    return _COMPOSITE if alarm.rule else _METRIC


def _note(alarm: Alarm, kind: str, summary: str, data: dict[str, Any]) -> None:
    alarm.history.append({
        "AlarmName": alarm.name, "AlarmType": _kind(alarm), "Timestamp": utcnow(), "HistoryItemType": kind,
        "HistorySummary": summary, "HistoryData": json.dumps({"version": "1.0", **data}),
    })


def _enter(backend: CloudWatchBackend, alarm: Alarm, reason: str, reason_data: str | None, value: str) -> None:
    """The alarm enters a state, and then those over it, where theirs changes by it."""
    old, now = alarm.state_value, utcnow()
    alarm.state_value, alarm.state_reason, alarm.state_reason_data, alarm.state_updated_timestamp = value, reason, reason_data, now
    if old == value:
        return
    alarm.state_transitioned_timestamp = now
    _note(alarm, "StateUpdate", f"Alarm updated from {old} to {value}",
          {"oldState": {"stateValue": old}, "newState": {"stateValue": value, "stateReason": reason}})
    for over in list(backend.alarms.values()):
        if over.rule and alarm.name in composites.children(over.rule):
            rings = composites.rings(over.rule, {name: backend.alarms[name].state_value for name in composites.children(over.rule)})
            if (state := "ALARM" if rings else "OK") != over.state_value:
                _enter(backend, over, f"{alarm.name} transitioned to {value}", "{}", state)


def _page(self: CloudWatchResponse, found: list[Any]) -> tuple[list[Any], str | None]:
    size = self._get_param("MaxRecords") or _PAGE
    if not 1 <= size <= _LONGEST_PAGE:
        raise ValidationError(f"MaxRecords is {size}; it must be from 1 to {_LONGEST_PAGE}")
    start = int(self._get_param("NextToken") or 0)
    end = start + size
    return found[start:end], str(end) if end < len(found) else None


def install() -> None:
    """Replaces what moto does to list alarms and to change their state, and adds the history."""
    put = CloudWatchBackend.put_metric_alarm

    def put_metric_alarm(self: CloudWatchBackend, name: str, **config: Any) -> Alarm:
        with _lock:
            before = self.alarms.get(name)
            alarm = put(self, name=name, **config)
            if before is None:
                alarm.state_transitioned_timestamp = alarm.state_updated_timestamp
            else:
                for kept in ("history", "state_value", "state_reason", "state_reason_data", "state_updated_timestamp", "state_transitioned_timestamp"):
                    setattr(alarm, kept, getattr(before, kept))
            _note(alarm, "ConfigurationUpdate", f'Alarm "{name}" {"updated" if before else "created"}', {"type": "Update" if before else "Create"})
            return alarm

    def update_state(self: CloudWatchBackend, alarm_name: str, reason: str, reason_data: str | None, state_value: str) -> None:
        with _lock:
            checked(self, alarm_name, reason, reason_data, state_value)
            _enter(self, self.alarms[alarm_name], reason, reason_data, state_value)

    # Moto's own refuses what is not to be set; what it sets is set by _enter.
    checked = CloudWatchBackend.set_alarm_state
    Alarm.update_state = lambda self, reason, reason_data, state_value: None

    def describe_alarms(self: CloudWatchResponse) -> ActionResult:
        names, prefix = self._get_param("AlarmNames", []), self._get_param("AlarmNamePrefix")
        state, action = self._get_param("StateValue"), self._get_param("ActionPrefix")
        kinds = self._get_param("AlarmTypes", []) or [_METRIC]
        if names and prefix:
            raise InvalidParameterCombination("AlarmNames and AlarmNamePrefix cannot be specified together")
        if len(names) > _MOST_NAMES:
            raise ValidationError(f"AlarmNames has {len(names)} members; it must have at most {_MOST_NAMES}")
        alarms = sorted(list(self.cloudwatch_backend.alarms.values()), key=lambda alarm: (_kind(alarm), alarm.name))
        page, token = _page(self, [
            a for a in alarms
            if _kind(a) in kinds and (not names or a.name in names) and a.name.startswith(prefix or "")
            and state in (None, a.state_value) and (not action or any(named.startswith(action) for named in a.alarm_actions or []))
        ])
        return ActionResult({
            "MetricAlarms": [a for a in page if _kind(a) == _METRIC], "CompositeAlarms": [a for a in page if _kind(a) == _COMPOSITE], "NextToken": token,
        })

    def describe_alarm_history(self: CloudWatchResponse) -> ActionResult:
        name, wanted = self._get_param("AlarmName"), self._get_param("HistoryItemType")
        start, end = self._get_param("StartDate"), self._get_param("EndDate")
        kinds = self._get_param("AlarmTypes", []) or [_METRIC]
        with _lock:
            items = [
                item for alarm in self.cloudwatch_backend.alarms.values() for item in alarm.history
                if name in (None, alarm.name) and _kind(alarm) in kinds and wanted in (None, item["HistoryItemType"])
                and (start is None or start <= item["Timestamp"]) and (end is None or item["Timestamp"] <= end)
            ]
        items.sort(key=lambda item: item["Timestamp"], reverse=self._get_param("ScanBy") != "TimestampAscending")
        page, token = _page(self, items)
        return ActionResult({"AlarmHistoryItems": page, "NextToken": token})

    CloudWatchBackend.put_metric_alarm = put_metric_alarm
    CloudWatchBackend.set_alarm_state = update_state
    CloudWatchResponse.describe_alarms = describe_alarms
    CloudWatchResponse.describe_alarm_history = describe_alarm_history
