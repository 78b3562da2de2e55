"""Seconds of writes with Spark by way and round, their ratios, and the table of all of them.

A round compares ways on the same machine under the same load, so only figures of one round are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeAlias

import attrs

Figures: TypeAlias = Mapping[str, Mapping[int, float]]
"""Seconds of the valid runs, by way and round."""


@attrs.frozen(kw_only=True)
class Case:
    """A frame to write, and the seconds of each way's valid runs, by round: wall clock and processors.

    Processor seconds are those of the JVM and all Python workers, without the broker, which has its own. They are
    stable on a busy machine.
    """

    name: str
    records: int
    seconds: dict[str, dict[int, float]] = attrs.field(factory=lambda: defaultdict(dict))
    cpu: dict[str, dict[int, float]] = attrs.field(factory=lambda: defaultdict(dict))
    broker_cpu: dict[str, dict[int, float]] = attrs.field(factory=lambda: defaultdict(dict))


def same_rounds(figures: Figures, way: str, other: str) -> Sequence[tuple[float, float]]:
    """Return the figures of two ways from each round in which both are valid."""
    ours, theirs = figures.get(way, {}), figures.get(other, {})
    return [(ours[number], theirs[number]) for number in ours if number in theirs]


def ratios(figures: Figures, way: str, other: str) -> Sequence[float]:
    """Return the figures of one way divided by those of another in the same round, sorted."""
    return sorted(one / two for one, two in same_rounds(figures, way, other))


def with_spread(found: Sequence[float]) -> str:
    """Return the median of sorted ratios, with the lowest and the highest; empty without any."""
    return f"{median(found):.2f} ({found[0]:.2f} - {found[-1]:.2f})" if found else ""


def markdown(cases: Sequence[Case], baseline: str) -> list[str]:
    """Return medians of the rounds; a ratio is the median of the baseline's figure divided by the way's."""
    lines = [
        "| what | way | seconds | rows/s | faster than Spark's sink | CPU s | less CPU than Spark's sink |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        for way, seconds in case.seconds.items():
            middle, cpu = median(seconds.values()), median(case.cpu[way].values())
            faster, less = (with_spread(ratios(each, baseline, way)) for each in (case.seconds, case.cpu))
            figures = f"{middle:.3f} | {case.records / middle:,.0f} | {faster} | {cpu:.2f} | {less}"
            lines.append(f"| {case.name} | {way} | {figures} |")
    return lines


def incomplete(cases: Sequence[Case], rounds: int) -> bool:
    """Return whether a way has fewer valid runs than there were rounds."""
    return any(len(runs) < rounds for case in cases for runs in case.seconds.values())
