"""What the time of a record went to: each moment counts for one wait, and the waits are ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from ottla.results.stories.waits import Interval, WaitKind
from ottla.results.value_methods import ValueMethods

_RANKS: Final = {kind: rank for rank, kind in enumerate(WaitKind)}
"""Of two waits at the same time, the one with the lower rank counts: it explains the other."""


@attrs.frozen(eq=False, repr=False)
class Cause(ValueMethods):
    """A wait of a record: what for, and how many seconds it took in all."""

    kind: WaitKind
    seconds: float
    detail: str

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s for {self.kind.value.format(self.detail)}"


@attrs.frozen(eq=False, repr=False)
class Span(ValueMethods):
    """A part of a record's time, in which it waited for one thing."""

    kind: WaitKind
    detail: str
    start: float
    end: float


def ranked(spans: Iterable[Span], before: Iterable[tuple[WaitKind, float]]) -> Sequence[Cause]:
    """The waits of a record by their time, longest first; *before* are the seconds before it was queued."""
    seconds: dict[tuple[WaitKind, str], float] = {}
    for span in spans:
        key = (span.kind, span.detail)
        seconds[key] = seconds.get(key, 0.0) + span.end - span.start
    for kind, waited in before:
        seconds[kind, ""] = waited
    causes = [Cause(kind, each, detail) for (kind, detail), each in seconds.items() if each > 0.0]
    return tuple(sorted(causes, key=lambda cause: -cause.seconds))


class Timeline:
    """A walk through a record's time from *start* to *end*, in which these *intervals* may explain it."""

    def __init__(self, start: float, end: float, intervals: Iterable[Interval]) -> None:
        self._at = start
        self._end = end
        self._intervals = sorted(intervals, key=lambda each: _RANKS[each.kind])
        self.spans: list[Span] = []
        """The time until now, in order and without gaps."""

    def until(
        self,
        at: float | None,
        rest: WaitKind,
        detail: str = "",
        *,
        node: int | None = None,
        among: Iterable[WaitKind] | None = None,
    ) -> None:
        """Explain the time until *at*, None: to the end. What no noted wait explains is of the kind *rest*."""
        start, end = self._at, self._end if at is None else min(self._end, at)
        if end <= start:
            return
        self._at = end
        free = [(start, end)]
        for interval in self._intervals:
            if (among is None or interval.kind in among) and (node is None or interval.node in (None, node)):
                free = self._take(free, interval)
        self.spans += [Span(rest, detail, begins, ends) for begins, ends in free]
        self.spans.sort(key=lambda span: span.start)

    def _take(self, free: Sequence[tuple[float, float]], interval: Interval) -> list[tuple[float, float]]:
        """Explain what is free by an interval, and return what is still free."""
        remaining: list[tuple[float, float]] = []
        for start, end in free:
            begins, ends = max(start, interval.start), min(end, interval.end)
            if begins >= ends:
                remaining.append((start, end))
                continue
            self.spans.append(Span(interval.kind, interval.detail, begins, ends))
            remaining += [piece for piece in ((start, begins), (ends, end)) if piece[0] < piece[1]]
        return remaining
