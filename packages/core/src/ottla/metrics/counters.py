"""All that is counted for one producer, and when its windows end. Knows no names, and computes nothing.

Whoever moves a batch, a request or a connection counts it here; a record by itself is never counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from ottla.metrics.counter import Counter, Span, Sum


@attrs.frozen(eq=False)
class NodeCounters:
    """What goes to one broker and comes back."""

    requests: Counter = attrs.Factory(Counter)  # bytes of each
    answers: Counter = attrs.Factory(Counter)  # bytes of each
    latencies: Counter = attrs.Factory(Counter)  # ms from a Produce request to its answer


@attrs.frozen(eq=False)
class TopicCounters:
    """What goes to one topic."""

    records: Counter = attrs.Factory(Counter)  # of each batch, each time that it leaves
    batches: Counter = attrs.Factory(Counter)  # bytes of each on the wire
    ratios: Counter = attrs.Factory(Counter)  # of compression
    retries: Counter = attrs.Factory(Counter)  # records of each batch that is queued again
    errors: Counter = attrs.Factory(Counter)  # records of each batch that is given up


@attrs.frozen(eq=False)
class ProducerCounters:
    """What the producer does beside that; the sums of all nodes and all topics are made by whoever reads."""

    records: Counter = attrs.Factory(Counter)  # of each request
    plain: Counter = attrs.Factory(Counter)  # bytes of the records of each request, before compression
    waits: Counter = attrs.Factory(Counter)  # ms of each batch from its beginning to its leaving
    splits: Counter = attrs.Factory(Counter)
    throttles: Counter = attrs.Factory(Counter)  # ms that each answer asks for
    connected: Counter = attrs.Factory(Counter)
    closed: Counter = attrs.Factory(Counter)
    logins: Counter = attrs.Factory(Counter)
    refusals: Counter = attrs.Factory(Counter)  # of trust, whoever refused: the broker or our side
    renewals: Counter = attrs.Factory(Counter)
    lost_renewals: Counter = attrs.Factory(Counter)
    polls: Counter = attrs.Factory(Counter)
    memory_waits: Counter = attrs.Factory(Counter)  # seconds of each
    memory_refusals: Counter = attrs.Factory(Counter)
    flush: Span = attrs.Factory(Span)
    metadata_wait: Span = attrs.Factory(Span)
    txn_init: Span = attrs.Factory(Span)
    txn_begin: Span = attrs.Factory(Span)
    txn_send_offsets: Span = attrs.Factory(Span)
    txn_prepare: Span = attrs.Factory(Span)
    txn_commit: Span = attrs.Factory(Span)
    txn_abort: Span = attrs.Factory(Span)


class Counters:
    """What is counted of a producer, its nodes and its topics, in windows of *window* seconds, *samples* of them.

    Counted by the I/O thread, but for spans, memory and errors, which have locks; read by any thread.
    """

    def __init__(self, *, samples: int = 2, window: float = 30.0) -> None:
        self.samples = samples
        self.window = max(window, 0.001)  # Java takes 0, too
        self.producer = ProducerCounters()
        self.nodes: dict[int, NodeCounters] = {}
        self.topics: dict[str, TopicCounters] = {}
        self.rolls = 0
        """Odd while a window ends: who reads meanwhile reads again, for the I/O thread waits for nobody."""
        self.window_starts: tuple[float, ...] = ()
        """When each window began that is kept; the last one is open."""
        self._ends_at = float("-inf")

    def node(self, node: int) -> NodeCounters:
        """What is counted of a broker."""
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = NodeCounters()
        return found

    def topic(self, topic: str) -> TopicCounters:
        """What is counted of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics.setdefault(topic, TopicCounters())
        return found

    def source(self, name: str) -> Counter | Sum | Span:
        """What is counted under this name of the producer, or in sum of its nodes or topics."""
        if name in _PRODUCER:
            own: Counter | Span = getattr(self.producer, name)
            return own
        parts: Sequence[Any] = list((self.nodes if name in _NODE else self.topics).values())
        return Sum(getattr(part, name) for part in parts)

    def end_window_if_due(self, now: float) -> None:
        """End the open window if it is over. Once a round, by the I/O thread, before anything of *now* is counted."""
        self.producer.polls.add(1)
        if now >= self._ends_at:
            self._roll_windows(now)

    def _roll_windows(self, now: float) -> None:
        self.rolls += 1
        if self.window_starts:
            for counter in self._all():
                counter.roll_window(self.samples)
        self.window_starts = (*self.window_starts, now)[-self.samples :]
        self._ends_at = now + self.window
        self.rolls += 1

    def _all(self) -> Iterator[Counter]:
        for scope in (self.producer, *list(self.nodes.values()), *list(self.topics.values())):
            yield from _tallies(scope)


_PRODUCER: Final = frozenset(field.name for field in attrs.fields(ProducerCounters))
_NODE: Final = frozenset(field.name for field in attrs.fields(NodeCounters))


def _tallies(scope: Any) -> Iterator[Counter]:
    for field in attrs.fields(type(scope)):
        found = getattr(scope, field.name)
        if isinstance(found, Counter):
            yield found
