"""Targets of the Spark package, and a check of a benchmark's rounds for them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import attrs
from spark_figures import Figures, same_rounds


@attrs.frozen(kw_only=True)
class Aim:
    """One way compared with another: a minimum speed ratio, or maximum extra seconds."""

    name: str
    way: str
    baseline: str
    times: float | None = None
    seconds_more: float | None = None

    def found(self, seconds: Figures) -> Sequence[float]:
        """Return the figure of each round with both ways, sorted."""
        pairs = same_rounds(seconds, self.way, self.baseline)
        return sorted(theirs / ours if self.times is not None else ours - theirs for ours, theirs in pairs)

    def line(self, seconds: Figures) -> str | None:
        """Return a row of the table, or None without figures."""
        found = self.found(seconds)
        if not found:
            return None
        middle = median(found)
        if self.times is not None:
            aim, reached = f"at least {_times(self.times)}", middle >= self.times
            figures = f"{_times(middle)} ({_times(found[0])} - {_times(found[-1])})"
        elif self.seconds_more is not None:
            aim, reached = f"at most {_ms(self.seconds_more)} more", middle <= self.seconds_more
            figures = f"{_ms(middle)} more ({_ms(found[0])} - {_ms(found[-1])})"
        return (
            f"| {self.name} | {self.way} against {self.baseline} | {figures} | {aim} | {'yes' if reached else 'no'} |"
        )


def table(cases: Sequence[tuple[Sequence[Aim], Figures]]) -> list[str]:
    """Return all targets of some cases with their seconds, as Markdown."""
    lines = [line for aims, seconds in cases for aim in aims if (line := aim.line(seconds)) is not None]
    return ["| what | is | median (lowest - highest) | aim | reached |", "|---|---|---|---|---|", *lines]


def _times(figure: float) -> str:
    return f"{figure:.2f} x"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
