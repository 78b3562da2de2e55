"""OpenTelemetry's MetricsData, version 1, as PushTelemetry requests carry it.

Encodes gauges and sums of floats with texts as attributes, which is all that a producer pushes. A library for protobuf
would be a dependency of every producer.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.protocol.primitives import uvarint

Attributes: TypeAlias = tuple[tuple[str, str], ...]

_TEXT: Final = "utf-8", "replace"
"""Protobuf allows no surrogates, which a client id or a plugin's tag may have."""

# Tags of fields: the field's number in opentelemetry/proto/metrics/v1/metrics.proto, and its wire type in three bits.
_FIRST: Final = b"\x0a"  # field 1, with a length
_SECOND: Final = b"\x12"  # field 2, with a length
_GAUGE: Final = b"\x2a"  # Metric.gauge = 5
_SUM: Final = b"\x3a"  # Metric.sum = 7
_SINCE: Final = b"\x11"  # NumberDataPoint.start_time_unix_nano = 2, eight bytes
_POINT_TIME_AND_VALUE: Final = struct.Struct("<BQBd")  # time_unix_nano = 3 and as_double = 4, eight bytes each
_ATTRIBUTE: Final = b"\x3a"  # NumberDataPoint.attributes = 7
_TEMPORALITY: Final = b"\x10"  # Sum.aggregation_temporality = 2, a varint
_MONOTONIC: Final = b"\x18\x01"  # Sum.is_monotonic = 3, true


class Temporality(enum.IntEnum):
    """The time that a sum covers: since the last push, or since the beginning."""

    DELTA = 1
    CUMULATIVE = 2


@attrs.frozen(kw_only=True)
class Point:
    """One value of a metric, at a time in nanoseconds since 1970; a sum counts from *since_ns*."""

    value: float
    at_ns: int
    since_ns: int = 0
    attributes: Attributes = ()


@attrs.frozen(kw_only=True)
class OtlpMetric:
    """A metric with its points: a sum that only grows, or a gauge without *temporality*."""

    name: str
    points: Sequence[Point]
    temporality: Temporality | None = None


def metrics_data(metrics: Iterable[OtlpMetric], *, resource: Attributes, scope: str, version: str) -> bytes:
    """Encode metrics of one resource, recorded by the library *scope* of that *version*."""
    instrumentation_scope = _text(_FIRST, scope) + _text(_SECOND, version)
    scope_metrics = _field(_FIRST, instrumentation_scope) + b"".join(
        _field(_SECOND, _metric(metric)) for metric in metrics
    )
    resource_metrics = _field(_FIRST, _attributes(_FIRST, resource)) + _field(_SECOND, scope_metrics)
    return _field(_FIRST, resource_metrics)


def _metric(metric: OtlpMetric) -> bytes:
    data = b"".join(_field(_FIRST, _point(point)) for point in metric.points)
    if metric.temporality is None:
        return _text(_FIRST, metric.name) + _field(_GAUGE, data)
    data += _TEMPORALITY + bytes((metric.temporality,)) + _MONOTONIC
    return _text(_FIRST, metric.name) + _field(_SUM, data)


def _point(point: Point) -> bytes:
    since = _SINCE + point.since_ns.to_bytes(8, "little") if point.since_ns else b""
    time_and_value = _POINT_TIME_AND_VALUE.pack(0x19, point.at_ns, 0x21, point.value)
    return since + time_and_value + _attributes(_ATTRIBUTE, point.attributes)


def _attributes(tag: bytes, attributes: Attributes) -> bytes:
    # A KeyValue has the key as field 1 and an AnyValue as field 2, whose text is field 1.
    return b"".join(
        _field(tag, _text(_FIRST, key) + _field(_SECOND, _field(_FIRST, value.encode(*_TEXT))))
        for key, value in attributes
    )


def _text(tag: bytes, text: str) -> bytes:
    return _field(tag, text.encode(*_TEXT)) if text else b""


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + uvarint(len(content)) + content
