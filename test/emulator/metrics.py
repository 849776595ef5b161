"""CloudWatch's metrics are read by namespace, name and all dimensions, in periods that begin where CloudWatch's do.

Stock moto gives a metric of any namespace where dimensions are asked for, misses dimensions in another order, and begins
its periods where the question begins. Expressions are left to it: it knows none but the id of another query.

Source: Amazon CloudWatch API, GetMetricData.
"""

import datetime
from typing import Any

from moto.cloudwatch.models import CloudWatchBackend, Statistics


def install() -> None:
    """Replaces what moto does to read metrics, where no expression is asked for."""
    expressions = CloudWatchBackend.get_metric_data

    def get_metric_data(
        self: CloudWatchBackend, queries: list[dict[str, Any]], start_time: datetime.datetime, end_time: datetime.datetime, scan_by: str = "TimestampDescending",
    ) -> list[dict[str, Any]]:
        if start_time >= end_time or any("Expression" in query for query in queries):
            return expressions(self, queries, start_time, end_time, scan_by)
        return [_read(self, query, start_time, end_time, scan_by) for query in queries if query.get("ReturnData", True)]

    CloudWatchBackend.get_metric_data = get_metric_data


def _read(backend: CloudWatchBackend, query: dict[str, Any], start: datetime.datetime, end: datetime.datetime, scan_by: str) -> dict[str, Any]:
    stat = query["MetricStat"]
    metric, seconds = stat["Metric"], int(stat["Period"])
    dimensions = {(d["Name"], d["Value"]) for d in metric.get("Dimensions", [])}
    start = _begins(start, seconds)
    periods: dict[datetime.datetime, list[Any]] = {}
    for datum in list(backend.metric_data):
        if (
            datum.namespace == metric.get("Namespace") and datum.name == metric["MetricName"] and start <= datum.timestamp < end
            and {(d.name, d.value) for d in datum.dimensions} == dimensions and stat.get("Unit") in (None, datum.unit)
        ):
            periods.setdefault(_begins(datum.timestamp, seconds), []).append(datum)
    timestamps = sorted(periods, reverse=scan_by != "TimestampAscending")
    values = []
    for timestamp in timestamps:
        statistics = Statistics([stat["Stat"]], timestamp)
        statistics.metric_data = periods[timestamp]
        values.append(statistics.get_statistics_for_type(stat["Stat"]))
    return {"id": query["Id"], "label": query.get("Label") or f"{metric['MetricName']} {stat['Stat']}", "values": values, "timestamps": timestamps, "status_code": "Complete"}


def _begins(at: datetime.datetime, seconds: int) -> datetime.datetime:
    """When the period begins in which that is."""
    since = (at - datetime.datetime.min).total_seconds()
    return datetime.datetime.min + datetime.timedelta(seconds=since // seconds * seconds)
