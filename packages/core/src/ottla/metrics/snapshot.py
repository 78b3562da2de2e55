"""A snapshot of all metrics: a dictionary, whose text is a short form for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NoReturn

from ottla.errors import printable
from ottla.interfaces import MetricName
from ottla.metrics.catalogue import NODE, PRODUCER, TOPIC

SHOWN: Final = 10
"""The number of topics, and of nodes, in the short form."""

_SIZES: Final = ("B", "kB", "MB", "GB", "TB")


class MetricsSnapshot(dict[MetricName, float]):
    """The values of all metrics at one moment, by name; `str` shows the most important ones in a few lines."""

    def __missing__(self, name: object) -> NoReturn:
        if isinstance(name, str):  # kafka-python's are by group, Java's by MetricName
            raise KeyError(
                f"{printable(name)!r}: the keys are of MetricName; for one value call producer.metrics(name), such as "
                "producer.metrics('request-rate')"
            )
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        client = next((of for name in self for label, of in name.tags if label == "client-id"), "")
        yield f"{printable(client) or 'producer'}: {_records(_Of(self, PRODUCER))}"
        yield from _indented(_Of(self, PRODUCER))
        for group, label, what in ((TOPIC, "topic", "topic"), (NODE, "node-id", "node")):
            found = sorted({of for name in self if name.group == group for key, of in name.tags if key == label})
            for each in found[:SHOWN]:
                values = _Of(self, group, (label, each))
                text = _records(values) if group == TOPIC else _requests(values)
                yield f"  {what} {printable(each.removeprefix('node-'))}: {text}"
            if len(found) > SHOWN:
                yield f"  and {len(found) - SHOWN} other {what}s"


class _Of:
    """The values of one group and one topic or node, by name; NaN for those that are not there."""

    def __init__(self, values: MetricsSnapshot, group: str, *label: tuple[str, str]) -> None:
        self._values = {
            name.name: value
            for name, value in values.items()
            if name.group == group and all(pair in name.tags for pair in label)
        }

    def __call__(self, name: str) -> float:
        return self._values.get(name, math.nan)


def _records(of: _Of) -> str:
    return (
        f"records sent: {of('record-send-total'):,.0f}, {of('record-send-rate'):,.1f}/s; "
        f"sent again: {of('record-retry-total'):,.0f}; failed: {of('record-error-total'):,.0f}"
    )


def _indented(of: _Of) -> Iterator[str]:
    yield (
        f"  batches: {_size(of('batch-size-avg'))} on average, {_size(of('batch-size-max'))} at most; "
        f"a record {_size(of('record-size-avg'))}, compressed to {_percent(of('compression-rate-avg'))}"
    )
    yield (
        f"  times: {_ms(of('record-queue-time-avg'))} in the queue, {_ms(of('record-queue-time-max'))} at most; "
        f"{_ms(of('request-latency-avg'))} for a response, {_ms(of('request-latency-max'))} at most; "
        f"throttled {_ms(of('produce-throttle-time-max'))} at most"
    )
    yield (
        f"  memory: {_size(of('buffer-available-bytes'))} of {_size(of('buffer-total-bytes'))} free; "
        f"threads waiting: {of('waiting-threads'):.0f}"
    )
    yield (
        f"  connections: {of('connection-count'):.0f} open, {of('connection-close-total'):.0f} closed so far, "
        f"{of('failed-authentication-total'):.0f} refused; requests in flight: {of('requests-in-flight'):.0f}"
    )
    if of("oldest-record-age") > 0:
        yield (
            f"  waiting now: the oldest record for {_ms(of('oldest-record-age') * 1000)}, "
            f"the oldest request for {_ms(of('oldest-request-age') * 1000)}"
        )


def _requests(of: _Of) -> str:
    return (
        f"requests: {of('request-total'):,.0f}; {_size(of('outgoing-byte-total'))} out, "
        f"{_size(of('incoming-byte-total'))} in; {_ms(of('request-latency-avg'))} for a response"
    )


def _size(value: float) -> str:
    if math.isnan(value):
        return "-"
    unit = 0
    while value >= 1000 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_SIZES[unit]}"


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0%}"
