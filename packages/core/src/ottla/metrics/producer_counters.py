"""All counters of one producer, and the end of their windows.

Names of metrics and computations are in `ottla.metrics.catalogue`, units in `ottla.metrics.units`.

The code that moves a batch, a request or a connection counts it here; single records are never counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from ottla.metrics.buckets import BATCH_SIZES, RECORD_SIZES, TIMES, Buckets
from ottla.metrics.counter import Counter, Span, Sum

MAX_GONE: Final = 32
"""The number of brokers without a connection whose counters are kept, because they may be restarting.

A broker whose counters were dropped starts from zero if it comes back. The sums of the producer keep what was counted.
"""


@attrs.frozen(eq=False, repr=False)
class NodeCounters:
    """Counters for one broker."""

    requests: Counter = attrs.Factory(Counter)  # bytes of each
    responses: Counter = attrs.Factory(Counter)  # bytes of each
    latencies: Counter = attrs.Factory(Counter)  # ms from a Produce request to its response
    latency_buckets: Buckets = attrs.Factory(lambda: Buckets(TIMES))  # the same


@attrs.frozen(eq=False, repr=False)
class TopicCounters:
    """Counters for one topic."""

    records: Counter = attrs.Factory(Counter)  # of each batch, each time that it is sent
    batches: Counter = attrs.Factory(Counter)  # bytes of each on the wire
    ratios: Counter = attrs.Factory(Counter)  # of compression
    retries: Counter = attrs.Factory(Counter)  # records of each requeued batch
    errors: Counter = attrs.Factory(Counter)  # records of each failed batch
    batch_sizes: Buckets = attrs.Factory(lambda: Buckets(BATCH_SIZES))  # bytes of each batch on the wire
    record_sizes: Buckets = attrs.Factory(lambda: Buckets(RECORD_SIZES))  # bytes, the mean of a batch for each record
    queue_times: Buckets = attrs.Factory(lambda: Buckets(TIMES))  # ms from a batch's creation, for each record
    delivery_times: Buckets = attrs.Factory(lambda: Buckets(TIMES))  # ms to its acknowledgement, for each record


@attrs.frozen(eq=False, repr=False)
class ProducerCounters:
    """Counters of the whole producer; readers compute the sums over nodes and topics."""

    records: Counter = attrs.Factory(Counter)  # of each request
    plain: Counter = attrs.Factory(Counter)  # bytes of the records of each request, before compression
    waits: Counter = attrs.Factory(Counter)  # ms from the creation of each batch to its sending
    splits: Counter = attrs.Factory(Counter)
    throttles: Counter = attrs.Factory(Counter)  # ms in each response
    throttle_buckets: Buckets = attrs.Factory(lambda: Buckets(TIMES))  # the same
    connected: Counter = attrs.Factory(Counter)
    closed: Counter = attrs.Factory(Counter)
    logins: Counter = attrs.Factory(Counter)
    refusals: Counter = attrs.Factory(Counter)  # SASL or TLS failures, refused by the broker or by us
    renewals: Counter = attrs.Factory(Counter)
    renewal_times: Counter = attrs.Factory(Counter)  # ms from the decision to renew a session
    lost_renewals: Counter = attrs.Factory(Counter)
    polls: Counter = attrs.Factory(Counter)
    io_waits: Counter = attrs.Factory(Counter)  # seconds of each wait for the sockets
    io: Counter = attrs.Factory(Counter)  # seconds of reading and writing after each wait
    operations: Counter = attrs.Factory(Counter)  # reads and writes of connections; only its count is used
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
    """The counters of a producer, its nodes and its topics, in *samples* windows of *window* seconds.

    Written by the I/O thread, except spans, memory and errors, which have locks; read by any thread.
    """

    def __init__(self, *, samples: int = 2, window: float = 30.0) -> None:
        self.samples = samples
        self.window = max(window, 0.001)  # Java accepts 0, too
        self.producer = ProducerCounters()
        self.nodes: dict[int, NodeCounters] = {}
        self.topics: dict[str, TopicCounters] = {}
        self.ciphers: dict[tuple[str, str], int] = {}
        """The open connections by cipher suite and protocol; those without encryption are not counted."""
        self.on_new: Callable[[NodeCounters | TopicCounters, str], object] | None = None
        """Called with the counters of a new node or topic, and its name, before they count anything."""
        self.rolls = 0
        """Odd while a window ends or counters move: readers then read again, as the I/O thread never waits."""
        self.window_starts: tuple[float, ...] = ()
        """The start of each window that is kept; the last one is open."""
        self._ends_at = float("-inf")
        self._gone: dict[int, None] = {}  # brokers that left the cluster, in this order
        self._dropped = NodeCounters()  # the sums over those whose counters were dropped

    def node(self, node: int) -> NodeCounters:
        """The counters of a broker; made by the first call for it."""
        found = self.nodes.get(node)
        if found is None:
            found = NodeCounters()
            if self.on_new is not None:
                self.on_new(found, f"node-{node}")
            self.nodes[node] = found
        return found

    def node_connected(self, node: int) -> None:
        """Note that a broker has a connection, so that its counters are kept."""
        self._gone.pop(node, None)

    def node_left(self, node: int) -> None:
        """Note that a broker left the cluster. Of many, the counters of the first one are dropped."""
        self._gone.pop(node, None)
        self._gone[node] = None
        if len(self._gone) > MAX_GONE:
            self._drop(next(iter(self._gone)))

    def topic(self, topic: str) -> TopicCounters:
        """The counters of a topic."""
        found = self.topics.get(topic)
        if found is None:
            made = TopicCounters()
            if self.on_new is not None:
                self.on_new(made, topic)
            found = self.topics.setdefault(topic, made)
        return found

    def source(self, name: str) -> Counter | Sum | Span:
        """The producer's counter of this name, or the sum over its nodes or topics."""
        if name in _PRODUCER:
            own: Counter | Span = getattr(self.producer, name)
            return own
        of_nodes = name in _NODE
        parts: list[Any] = list((self.nodes if of_nodes else self.topics).values())
        if of_nodes:
            parts.append(self._dropped)
        return Sum(getattr(part, name) for part in parts)

    def end_window_if_due(self, now: float) -> None:
        """End the open window if it is over.

        Called once a round by the I/O thread, before other events of the round are counted.
        """
        self.producer.polls.add(1)
        if now >= self._ends_at:
            self._roll_windows(now)

    def _drop(self, node: int) -> None:
        """Drop the counters of a broker; the sums of the producer keep what they have counted."""
        del self._gone[node]
        counters = self.nodes.get(node)
        if counters is None:
            return
        self.rolls += 1
        for mine, its in zip(_counters_of(self._dropped), _counters_of(counters), strict=True):
            mine.absorb(its)
        del self.nodes[node]
        self.rolls += 1

    def _roll_windows(self, now: float) -> None:
        self.rolls += 1
        if self.window_starts:
            for counter in self._all():
                counter.roll_window(self.samples)
        self.window_starts = (*self.window_starts, now)[-self.samples :]
        self._ends_at = now + self.window
        self.rolls += 1

    def _all(self) -> Iterator[Counter]:
        for scope in (self.producer, self._dropped, *list(self.nodes.values()), *list(self.topics.values())):
            yield from _counters_of(scope)


_PRODUCER: Final = frozenset(field.name for field in attrs.fields(ProducerCounters))
_NODE: Final = frozenset(field.name for field in attrs.fields(NodeCounters))


def _counters_of(scope: Any) -> Iterator[Counter]:
    for field in attrs.fields(type(scope)):
        found = getattr(scope, field.name)
        if isinstance(found, Counter):
            yield found
