"""All that is counted for one producer, and when its windows end. Knows no names, and computes nothing.

Whoever moves a batch, a request or a connection counts it here; a record by itself is never counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from ottla.metrics.counter import Span, Sum, Tally


@attrs.frozen(eq=False)
class OfNode:
    """What goes to one broker and comes back."""

    requests: Tally = attrs.Factory(Tally)  # bytes of each
    answers: Tally = attrs.Factory(Tally)  # bytes of each
    latencies: Tally = attrs.Factory(Tally)  # ms from a Produce request to its answer


@attrs.frozen(eq=False)
class OfTopic:
    """What goes to one topic."""

    records: Tally = attrs.Factory(Tally)  # of each batch, each time that it leaves
    batches: Tally = attrs.Factory(Tally)  # bytes of each on the wire
    ratios: Tally = attrs.Factory(Tally)  # of compression
    retries: Tally = attrs.Factory(Tally)  # records of each batch that is queued again
    errors: Tally = attrs.Factory(Tally)  # records of each batch that is given up


@attrs.frozen(eq=False)
class OfProducer:
    """What the producer does beside that; the sums of all nodes and all topics are made by whoever reads."""

    records: Tally = attrs.Factory(Tally)  # of each request
    plain: Tally = attrs.Factory(Tally)  # bytes of the records of each request, before compression
    waits: Tally = attrs.Factory(Tally)  # ms of each batch from its beginning to its leaving
    splits: Tally = attrs.Factory(Tally)
    throttles: Tally = attrs.Factory(Tally)  # ms that each answer asks for
    connected: Tally = attrs.Factory(Tally)
    closed: Tally = attrs.Factory(Tally)
    logins: Tally = attrs.Factory(Tally)
    refusals: Tally = attrs.Factory(Tally)  # of trust, whoever refused: the broker or our side
    renewals: Tally = attrs.Factory(Tally)
    lost_renewals: Tally = attrs.Factory(Tally)
    polls: Tally = attrs.Factory(Tally)
    memory_waits: Tally = attrs.Factory(Tally)  # seconds of each
    memory_refusals: Tally = attrs.Factory(Tally)
    flush: Span = attrs.Factory(Span)
    metadata_wait: Span = attrs.Factory(Span)
    txn_init: Span = attrs.Factory(Span)
    txn_begin: Span = attrs.Factory(Span)
    txn_send_offsets: Span = attrs.Factory(Span)
    txn_prepare: Span = attrs.Factory(Span)
    txn_commit: Span = attrs.Factory(Span)
    txn_abort: Span = attrs.Factory(Span)


class Tallies:
    """What is counted of a producer, its nodes and its topics, in windows of *window* seconds, *samples* of them.

    Counted by the I/O thread, but for spans, memory and errors, which have locks; read by any thread.
    """

    def __init__(self, *, samples: int = 2, window: float = 30.0) -> None:
        self.samples = samples
        self.window = max(window, 0.001)  # Java takes 0, too
        self.producer = OfProducer()
        self.nodes: dict[int, OfNode] = {}
        self.topics: dict[str, OfTopic] = {}
        self.turns = 0
        """Odd while a window ends: who reads meanwhile reads again, for the I/O thread waits for nobody."""
        self.began: tuple[float, ...] = ()
        """When each window began that is kept; the last one is open."""
        self._ends_at = float("-inf")

    def node(self, node: int) -> OfNode:
        """What is counted of a broker."""
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = OfNode()
        return found

    def topic(self, topic: str) -> OfTopic:
        """What is counted of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics.setdefault(topic, OfTopic())
        return found

    def source(self, name: str) -> Tally | Sum | Span:
        """What is counted under this name of the producer, or in sum of its nodes or topics."""
        if name in _PRODUCER:
            own: Tally | Span = getattr(self.producer, name)
            return own
        parts: Sequence[Any] = list((self.nodes if name in _NODE else self.topics).values())
        return Sum(getattr(part, name) for part in parts)

    def pass_time(self, now: float) -> None:
        """End the open window if it is over. Once a round, by the I/O thread, before anything of *now* is counted."""
        self.producer.polls.add(1)
        if now >= self._ends_at:
            self._turn(now)

    def _turn(self, now: float) -> None:
        self.turns += 1
        if self.began:
            for tally in self._all():
                tally.turn(self.samples)
        self.began = (*self.began, now)[-self.samples :]
        self._ends_at = now + self.window
        self.turns += 1

    def _all(self) -> Iterator[Tally]:
        for scope in (self.producer, *list(self.nodes.values()), *list(self.topics.values())):
            yield from _tallies(scope)


_PRODUCER: Final = frozenset(field.name for field in attrs.fields(OfProducer))
_NODE: Final = frozenset(field.name for field in attrs.fields(OfNode))


def _tallies(scope: Any) -> Iterator[Tally]:
    for field in attrs.fields(type(scope)):
        found = getattr(scope, field.name)
        if isinstance(found, Tally):
            yield found
