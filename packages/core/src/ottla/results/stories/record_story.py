"""The story of a record, which is that of its batch: events with their times, and the waits that took the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from ottla.results.stories.causes import Cause, Span, Timeline, ranked
from ottla.results.stories.tries import CloseReason, Try
from ottla.results.stories.waits import NO_NOTES, Interval, Notes, WaitKind
from ottla.results.value_methods import ValueMethods

_ANYWHERE: Final = (WaitKind.CALLBACKS, WaitKind.OTHER_COMPRESSION, WaitKind.PROCESS)
"""Waits that hold everything up, also the reading of responses."""


@attrs.frozen(eq=False, repr=False)
class StoryEvent(ValueMethods):
    """Something that happened to the batch, `at` seconds after its first record was queued."""

    at: float
    text: str

    def __str__(self) -> str:
        return f"+{self.at:.3f} s  {self.text}"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecordStory(ValueMethods):
    """What happened to a record until now. All records of a batch have the same story: that of the batch.

    Times are seconds; those named `_at` are of the producer's clock, by default `time.monotonic`. `queued_at` is the
    time of the batch's first record. `until` is when the batch was completed, or now while it is `pending`. `tries` has
    at most the first and the last attempts. `waited_for_topic` and `waited_for_memory` are the waits in `send` of the
    record that waited longest before it was queued.
    """

    topic: str
    partition: int | None
    records: int
    outcome: str
    pending: bool
    queued_at: float
    until: float
    closed_at: float | None = None
    closed_by: CloseReason | None = None
    drained_at: float | None = None
    """When the batch left its queue to be encoded."""
    sealed_at: float | None = None
    """When the batch was encoded and compressed."""
    tries: tuple[Try, ...] = ()
    attempts: int = 0
    waited_for_topic: float = 0.0
    waited_for_memory: float = 0.0
    wanted_node: int | None = None
    """The broker for which the batch waits, if it is known."""
    behind_until: float = float("-inf")
    held_since: float | None = None
    notes: Notes = attrs.field(default=NO_NOTES, repr=False)

    @property
    def seconds(self) -> float:
        """The seconds from the queueing to the outcome, or until now, and those that `send` waited before."""
        return self.until - self.queued_at + self.waited_for_topic + self.waited_for_memory

    @property
    def cause(self) -> Cause | None:
        """The wait that took most of the time, or None if nothing took any time."""
        causes = self.causes
        return causes[0] if causes else None

    @property
    def causes(self) -> Sequence[Cause]:
        """All waits, the longest first. Their seconds add up to `seconds`."""
        before = ((WaitKind.TOPIC, self.waited_for_topic), (WaitKind.MEMORY, self.waited_for_memory))
        return ranked(self.spans, before)

    @property
    def events(self) -> Sequence[StoryEvent]:
        """What happened, in order."""
        return tuple(StoryEvent(at - self.queued_at, text) for at, text in self._events())

    @property
    def spans(self) -> Sequence[Span]:
        """The waits in the order of time, from the queueing on, without gaps."""
        timeline = Timeline(self.queued_at, self.until, self._intervals())
        timeline.until(self.ready_at, WaitKind.LINGER, among=())
        if self.drained_at is not None:
            timeline.until(self.drained_at, WaitKind.PROCESS, node=self.first_node)
            timeline.until(self.sealed_at, WaitKind.COMPRESSION, among=())
        rest, answer = WaitKind.OTHER_COMPRESSION if self.drained_at is not None else WaitKind.PROCESS, ""
        for attempt in self.tries:
            timeline.until(attempt.sent_at, rest, answer, node=attempt.node)
            timeline.until(attempt.answered_at, WaitKind.BROKER, str(attempt.node), among=_ANYWHERE)
            if attempt.answered_at is not None:
                rest, answer = WaitKind.RETRY, _short(f"broker {attempt.node}", attempt.response)
        if self.retrying and self.tries[-1].answered_at is not None:
            timeline.until(None, rest, answer, node=self.wanted_node)
        timeline.until(None, WaitKind.PROCESS, node=self.wanted_node)
        return timeline.spans

    @property
    def ready_at(self) -> float:
        """When the batch could have left its queue: it was closed, full, or its linger time had ended."""
        lingered = self.queued_at + self.notes.linger
        ready = lingered if self.closed_at is None else self.closed_at
        return min(ready, self.until if self.drained_at is None else self.drained_at)

    @property
    def first_node(self) -> int | None:
        """The broker of the first attempt, or the one that the batch waits for."""
        return self.tries[0].node if self.tries else self.wanted_node

    @property
    def retrying(self) -> bool:
        """Return whether the batch waits for another attempt, or waited for one until it failed."""
        return bool(self.tries) and self.outcome in ("pending", "failed")

    def _intervals(self) -> Iterator[Interval]:
        """The noted waits of the producer that concern this batch, and those of the batch itself."""
        yield from (each for each in self.notes.intervals if each.topic in (None, self.topic))
        yield Interval(WaitKind.EARLIER, self.queued_at, self.behind_until, None, None, "")
        if self.held_since is not None:
            end = self.until if self.drained_at is None else self.drained_at
            yield Interval(WaitKind.ORDER, self.held_since, end, None, None, "")

    def _events(self) -> Iterator[tuple[float, str]]:
        if self.waited_for_topic or self.waited_for_memory:
            yield (
                self.queued_at,
                f"queued; send had waited {self.waited_for_topic:.3f} s for metadata and "
                f"{self.waited_for_memory:.3f} s for memory",
            )
        else:
            yield self.queued_at, "queued"
        if self.drained_at is not None or self.closed_by is not None:
            why = self.closed_by or CloseReason.LINGER
            yield self.ready_at, f"takes no more records: {why.value}"
        if self.drained_at is not None and self.sealed_at is not None:
            yield self.sealed_at, f"encoded and compressed, in {self.sealed_at - self.drained_at:.3f} s"
        before = 0
        for attempt in self.tries:
            if attempt.number > before + 1:
                yield attempt.sent_at, f"(attempts left out: {attempt.number - before - 1})"
            before = attempt.number
            yield attempt.sent_at, f"sent to broker {attempt.node}, attempt {attempt.number}"
            if attempt.answered_at is not None:
                yield attempt.answered_at, _after(f"broker {attempt.node}", attempt.response)
        yield self.until, self.outcome

    def __str__(self) -> str:
        where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        lines = [f"{self.outcome} after {self.seconds:.3f} s, {self.records} in the batch for {where}"]
        lines += [f"  {event}" for event in self.events]
        lines += [f"  waited {cause}" for cause in self.causes]
        return "\n".join(lines)

    def brief(self) -> str:
        """The story in one line, for logs."""
        where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        causes = ", ".join(str(cause) for cause in self.causes[:3]) or "no waits"
        return f"{self.records} in a batch for {where}, {self.outcome} after {self.seconds:.3f} s; waited {causes}"

    def _repr_html_(self) -> str:
        from ottla.results.stories.picture import picture

        events = ((event.at, event.text) for event in self.events)
        return picture(self.brief(), self.spans, self.causes, events)


def _short(broker: str, response: str) -> str:
    """A response without its explanation, after the broker's name if it does not begin with that."""
    return _after(broker, response.partition(": ")[0])[:120]


def _after(broker: str, text: str) -> str:
    """A text after the broker's name, if it does not begin with that."""
    return text if text.startswith(f"{broker} ") else f"{broker}: {text}"
