"""The units of metrics, by what they count, measure or show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn


class Units(dict[str, str]):
    """Units by name. The error for an absent name says where to add it: only a new metric lacks one."""

    def __init__(self, table: str, units: Mapping[str, str]) -> None:
        super().__init__(units)
        self._table = table

    def __missing__(self, name: str) -> NoReturn:
        raise LookupError(f"a metric of {name!r} has no unit: add one to {self._table} in ottla/metrics/units.py")


RATIO: Final = "1"

EVENTS: Final[Mapping[str, str]] = Units(
    "EVENTS",
    {
        "splits": "batches",
        "requests": "requests",
        "responses": "responses",
        "connected": "connections",
        "closed": "connections",
        "logins": "connections",
        "refusals": "connections",
        "renewals": "sessions",
        "lost_renewals": "sessions",
        "polls": "rounds",
        "operations": "operations",
        "memory_refusals": "records",
    },
)
"""The unit of a counter's number of events."""

AMOUNTS: Final[Mapping[str, str]] = Units(
    "AMOUNTS",
    {
        "records": "records",
        "retries": "records",
        "errors": "records",
        "batches": "bytes",
        "requests": "bytes",
        "responses": "bytes",
        "plain / records": "bytes",
        "ratios": RATIO,
        "waits": "ms",
        "latencies": "ms",
        "throttles": "ms",
        "memory_waits": "s",
        "io_waits": "s",
        "io": "s",
        "renewal_times": "ms",
    },
)
"""The unit of a counter's amounts."""

GAUGES: Final[Mapping[str, str]] = Units(
    "GAUGES",
    {
        "requests-in-flight": "requests",
        "oldest-request-age": "s",
        "oldest-record-age": "s",
        "connection-count": "connections",
        "connections": "connections",
        "buffer-total-bytes": "bytes",
        "buffer-available-bytes": "bytes",
        "waiting-threads": "threads",
        "metadata-age": "s",
        "start-time-ms": "ms",
        "version": "1",
        "count": "metrics",
    },
)
