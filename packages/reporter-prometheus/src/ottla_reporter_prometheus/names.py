"""Names of metrics in Prometheus: which metrics are exported, and as what. One rule for all, no list.

Units are Prometheus' base units, seconds and bytes, and stand at the end of a name; counters end in `_total`. Rates and
averages of a window are left out, because Prometheus computes them from counters and histograms over any time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import attrs

Kind = Literal["counter", "gauge", "histogram"]

PREFIX: Final = "kafka_producer"
COUNT: Final = "kafka-metrics-count"

_GROUPS: Final[Mapping[str, str]] = {
    "producer-metrics": PREFIX,
    "producer-node-metrics": f"{PREFIX}_node",
    "producer-topic-metrics": f"{PREFIX}_topic",
    "app-info": f"{PREFIX}_app",
    "plugins": f"{PREFIX}_plugin",
}
_OTHERWISE: Final[Mapping[str, str]] = {"connection-count": "open-connections", "version": "info"}
"""Names that would end in `_count`, which is for histograms; and one that is always 1, for its labels."""

_WINDOWED: Final = ("-rate", "-avg", "-ratio")
_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "ms": ("seconds", 1e3),
    "ns": ("seconds", 1e9),
    "s": ("seconds", 1.0),
    "bytes": ("bytes", 1.0),
}
"""The base unit of a unit, and how many of the unit it has."""

_UNIT_AT_THE_END: Final = re.compile(r"(?:^|-)(?:ms|ns|bytes?|seconds)$")
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


@attrs.frozen
class Family:
    """The metric of Prometheus: its full name, its type, and the divisor that makes base units of values."""

    name: str
    kind: Kind
    divisor: float = 1.0


def omitted(group: str, name: str) -> bool:
    """Whether a metric is left out: a value of a window that Prometheus computes, or the number of metrics."""
    return group == COUNT or (group != "plugins" and group in _GROUPS and name.endswith(_WINDOWED))


def family(group: str, name: str, *, unit: str, kind: Kind) -> Family:
    """Return the metric of Prometheus for one of ours."""
    base, divisor = _UNITS.get(unit, ("", 1.0))
    name = _OTHERWISE.get(name, name)
    plain = name.removesuffix("-total") if kind == "counter" else name
    if base:
        plain = _UNIT_AT_THE_END.sub("", plain)
    prefix = _GROUPS.get(group) or f"{PREFIX}_{group.removesuffix('-metrics')}"
    parts = (prefix, plain, base, "total" if kind == "counter" else "")
    return Family(name=_NOT_A_NAME.sub("_", "_".join(filter(None, parts))), kind=kind, divisor=divisor)


def label(tag: str) -> str:
    """Return a tag's name as Prometheus takes it for a label: one wrong label costs all metrics of the program.

    Names that begin with two underscores, such as `__name__`, are Prometheus' own.
    """
    cleaned = _NOT_A_NAME.sub("_", tag)
    if cleaned.startswith("__"):
        cleaned = cleaned.lstrip("_")
    return f"_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


def text(value: str) -> str:
    """Return a text as UTF-8 has it: without surrogates, which a client id of an environment variable may have."""
    return value.encode("utf-8", "replace").decode()
