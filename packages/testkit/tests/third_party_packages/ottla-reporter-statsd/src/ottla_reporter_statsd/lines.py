"""The lines of StatsD that are sent to the server, with the tags of DogStatsD, and datagrams of such lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from ottla.interfaces import MetricDescription, MetricName

MAX_BYTES: Final = 1432
"""Of a datagram, so that it fits into one Ethernet frame."""

_NOT_ALLOWED: Final = re.compile(r"[\s:|@#,]")


class Line(NamedTuple):
    """A metric's line, and its value when it was written, if a counter's next line has to begin there."""

    content: bytes
    name: MetricName
    counted: float | None


class Lines:
    """Makes lines. Counters are sent as what they have grown by, all else as gauges."""

    def __init__(self, *, prefix: str, tags: Iterable[str]) -> None:
        self._prefix = f"{prefix}." if prefix else ""
        self._tags = tuple(tags)
        self._counted: dict[MetricName, float] = {}

    def of(
        self, values: Mapping[MetricName, float], described: Mapping[tuple[str, str], MetricDescription]
    ) -> Iterator[Line]:
        """Yield the lines for a snapshot; none for averages of nothing, and counters that have not grown."""
        self._counted = {name: value for name, value in self._counted.items() if name in values}
        for name, value in values.items():
            if not math.isfinite(value):
                continue
            description = described.get((name.group, name.name))
            unit = description.unit if description else ""
            if description is None or not description.cumulative:
                yield Line(self._gauge(name, value, unit), name, None)
            elif grown := self._grown(name, value):
                yield Line(self._line(name, grown, "c", unit), name, value)

    def sent(self, lines: Iterable[Line]) -> None:
        """Note that these lines have been sent: the next ones of their counters begin there."""
        self._counted.update({line.name: line.counted for line in lines if line.counted is not None})

    def _grown(self, name: MetricName, value: float) -> float:
        before = self._counted.get(name, 0.0)
        return value if value < before else value - before  # smaller: a plugin has removed it, and added it again

    def _gauge(self, name: MetricName, value: float, unit: str) -> bytes:
        line = self._line(name, value, "g", unit)
        if value >= 0:
            return line
        # A sign would change the gauge by the value. So it is set to 0 first, in the same datagram.
        return self._line(name, 0, "g", unit) + b"\n" + line

    def _line(self, name: MetricName, value: float, kind: str, unit: str) -> bytes:
        tags = [f"{clean(label)}:{clean(text)}" for label, text in name.tags]
        if unit:
            tags.append(f"unit:{clean(unit)}")
        written = f"{self._prefix}{clean(name.group)}.{clean(name.name)}:{number(value)}|{kind}"
        every = ",".join((*tags, *self._tags))
        return (f"{written}|#{every}" if every else written).encode("utf-8", "replace")


def clean(text: str) -> str:
    """Return *text* with an underscore for each character that has a meaning in a line."""
    return _NOT_ALLOWED.sub("_", text)


def number(value: float) -> str:
    """Return a number without an exponent, which few servers read."""
    if value == int(value):
        return str(int(value))
    return format(Decimal(repr(float(value))), "f")


def datagrams(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield groups of lines that fit into a datagram each; a longer line is one of its own."""
    group: list[Line] = []
    size = 0
    for line in lines:
        added = len(line.content) + 1  # for the line break between two lines
        if group and size + added > MAX_BYTES + 1:
            yield group
            group, size = [], 0
        group.append(line)
        size += added
    if group:
        yield group
