"""OpenTelemetry's semantic conventions for messaging and Kafka, version 1.44: attributes, units, and names.

Metrics without a name in the conventions begin with `kafka.producer`, the group of which Java's metrics are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.errors import BrokerError
from ottla.interfaces import MetricName

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SCOPE: Final = "ottla"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CLIENT_ID: Final = "messaging.client.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
OFFSET: Final = "messaging.kafka.offset"
MESSAGE_KEY: Final = "messaging.kafka.message.key"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
ERROR_TYPE: Final = "error.type"

DURATION: Final = "messaging.client.operation.duration"
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
SENT_MESSAGES: Final = "messaging.client.sent.messages"

SENT: Final = ("producer-topic-metrics", "record-send-total")
"""The metric that is exported as `SENT_MESSAGES`, too."""

SEND: Final[Mapping[str, str]] = {OPERATION_NAME: "send"}
OPERATION: Final[Mapping[str, str]] = {SYSTEM: "kafka", OPERATION_NAME: "send", OPERATION_TYPE: "send"}

_COUNT: Final = "kafka-metrics-count"
_GROUPS: Final[Mapping[str, str]] = {
    "producer-metrics": "kafka.producer",
    "producer-node-metrics": "kafka.producer.node",
    "producer-topic-metrics": "kafka.producer.topic",
    "app-info": "kafka.producer.app",
    "plugins": "kafka.producer.plugin",
}
_WINDOWED: Final = ("-rate", "-avg", "-ratio")
_LABELS: Final[Mapping[str, str]] = {"client-id": CLIENT_ID, "topic": DESTINATION, "node-id": "kafka.node.id"}
_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "ms": ("s", 1e3),
    "ns": ("s", 1e9),
    "s": ("s", 1.0),
    "bytes": ("By", 1.0),
    "1": ("1", 1.0),
}
_UNIT_AT_THE_END: Final = re.compile(r"[-_](?:ms|ns)$")
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_.]")


def omitted(group: str, name: str) -> bool:
    """Whether a metric is left out: a value of a window that a backend computes, or the number of metrics."""
    return group == _COUNT or (group != "plugins" and group in _GROUPS and name.endswith(_WINDOWED))


def metric_name(group: str, name: str) -> str:
    """Return the name of an instrument: no unit, and no `total`, which backends add."""
    plain = _UNIT_AT_THE_END.sub("", name.removesuffix("-total"))
    return _NOT_A_NAME.sub("_", f"{_GROUPS.get(group) or f'kafka.producer.{group}'}.{plain}")


def unit_of(unit: str) -> tuple[str, float]:
    """Return the unit in UCUM, and the divisor for values: `{record}` for records."""
    known = _UNITS.get(unit)
    if known is not None:
        return known
    single = unit.removesuffix("es" if unit.endswith("ches") else "s")
    return f"{{{single}}}" if single else "1", 1.0


def attributes(name: MetricName) -> dict[str, str]:
    """Return the attributes for a metric's tags."""
    return {
        SYSTEM: "kafka",
        **{_LABELS.get(label, f"kafka.{_NOT_A_NAME.sub('_', label)}"): of for label, of in name.tags},
    }


def error_type(error: BaseException) -> str:
    """Return the name of the broker's error code that caused an error, or else the class of the error.

    If what caused it is no Exception, such as CancelledError of a task, its class is returned.
    """
    cause: BaseException | None = error
    kind = type(error)
    while cause is not None:
        if isinstance(cause, BrokerError):
            return cause.code.name
        if not isinstance(cause, Exception):
            kind = type(cause)
        cause = cause.__cause__
    match kind.__module__.partition(".")[0]:
        case "builtins":
            return kind.__qualname__
        case "ottla":
            return f"ottla.errors.{kind.__qualname__}"
        case _:
            return f"{kind.__module__}.{kind.__qualname__}"
