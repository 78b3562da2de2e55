"""What the time of a record went to: each moment counts for one wait, and the waits are ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from ottla.results.stories.waits import Interval, WaitKind
from ottla.results.value_methods import ValueMethods

if TYPE_CHECKING:
    from ottla.results.stories.record_story import RecordStory

_ANYWHERE: Final = (WaitKind.CALLBACKS, WaitKind.OTHER_COMPRESSION, WaitKind.PROCESS)
"""Waits that hold everything up, also the reading of responses."""

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


def ranked(story: RecordStory, spans: Sequence[Span]) -> Sequence[Cause]:
    """The waits of a record by their time, longest first. The calls of `send` waited before the record was queued."""
    seconds: dict[tuple[WaitKind, str], float] = {}
    for span in spans:
        key = (span.kind, span.detail)
        seconds[key] = seconds.get(key, 0.0) + span.end - span.start
    for kind, waited in ((WaitKind.TOPIC, story.waited_for_topic), (WaitKind.MEMORY, story.waited_for_memory)):
        seconds[kind, ""] = waited
    causes = [Cause(kind, each, detail) for (kind, detail), each in seconds.items() if each > 0.0]
    return tuple(sorted(causes, key=lambda cause: -cause.seconds))


def spans_of(story: RecordStory) -> Sequence[Span]:
    """The time of a record from its queueing on, in order and without gaps."""
    timeline = _Timeline(story)
    timeline.until(story.ready_at, WaitKind.LINGER, among=_ANYWHERE[:0])
    if story.drained_at is not None:
        timeline.until(story.drained_at, WaitKind.PROCESS, node=story.first_node)
        timeline.until(story.sealed_at, WaitKind.COMPRESSION, among=())
    for attempt in story.tries:
        rest = timeline.retry_of or (WaitKind.OTHER_COMPRESSION if story.drained_at is not None else WaitKind.PROCESS)
        timeline.until(attempt.sent_at, rest, timeline.answer, node=attempt.node)
        timeline.until(attempt.answered_at, WaitKind.BROKER, str(attempt.node), among=_ANYWHERE)
        if attempt.answered_at is not None and attempt is not story.tries[-1]:
            timeline.retry_of, timeline.answer = WaitKind.RETRY, f"broker {attempt.node}: {_short(attempt.response)}"
    last = story.tries[-1] if story.tries else None
    if last is not None and last.answered_at is not None and story.retrying:
        timeline.until(None, WaitKind.RETRY, f"broker {last.node}: {_short(last.response)}", node=story.wanted_node)
    timeline.until(None, WaitKind.PROCESS, node=story.wanted_node)
    return timeline.spans


def _short(text: str) -> str:
    return text.split(":")[0][:80]


class _Timeline:
    """A walk through the time of a record."""

    def __init__(self, story: RecordStory) -> None:
        self._story = story
        self._at = story.queued_at
        self.spans: list[Span] = []
        self.retry_of: WaitKind | None = None
        self.answer = ""
        own = [Interval(WaitKind.EARLIER, story.queued_at, story.behind_until, None, None, "")]
        if story.held_since is not None and story.drained_at is not None:
            own.append(Interval(WaitKind.ORDER, story.held_since, story.drained_at, None, None, ""))
        elif story.held_since is not None:
            own.append(Interval(WaitKind.ORDER, story.held_since, story.until, None, None, ""))
        noted = (each for each in story.notes.intervals if each.topic in (None, story.topic))
        self._intervals = sorted([*noted, *own], key=lambda each: _RANKS[each.kind])

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
        start, end = self._at, min(self._story.until, self._story.until if at is None else at)
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
