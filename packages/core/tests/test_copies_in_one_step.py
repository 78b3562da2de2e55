"""What one thread changes while others read it is copied in one step, also without the GIL: no read ever fails."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest

from ottla.metrics.catalogue import CONNECTIONS
from ottla.metrics.producer_counters import Counters
from ottla.metrics.registry import MetricValues
from ottla.network.cluster import Broker
from ottla.network.connections import Connections
from ottla.plugins.calls import PluginCloser
from ottla.plugins.record_headers import checked_headers
from ottla.results.stories.waits import Journal, WaitKind

HANG_GUARD = 60.0
SECONDS = 0.3
"""Without the GIL, a copy in several steps fails within milliseconds."""

pytestmark = pytest.mark.unmeasured


def at_once(*works: Callable[[], object]) -> None:
    """Do all of these again and again, each on a thread of its own; raises what ended one of them."""
    errors: list[BaseException] = []
    end = time.monotonic() + SECONDS

    def repeated(work: Callable[[], object]) -> None:
        try:
            while time.monotonic() < end and not errors:
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeated, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_GUARD)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.rule("producer.metrics")
def test_requests_in_flight_are_counted_while_connections_come_and_go() -> None:
    connections = Connections(max_in_flight=5, chance=Random(1))
    brokers = [Broker(id=number, host="h", port=9092) for number in range(20)]

    def come_and_go() -> None:
        made = [connections.of(broker) for broker in brokers]
        for connection in made:
            connections.forget(connection)

    at_once(come_and_go, connections.in_flight, connections.oldest_sent_at)


@pytest.mark.rule("producer.metrics")
def test_open_connections_are_counted_while_they_come_and_go() -> None:
    counters = Counters()
    values = MetricValues(counters=counters, client_id="me", gauges={}, clock=time.monotonic)

    def come_and_go() -> None:
        for number in range(20):
            counters.ciphers["cipher", f"protocol {number}"] = 1
        counters.ciphers.clear()

    at_once(come_and_go, lambda: values.value(CONNECTIONS), values.snapshot)


def test_waits_of_several_threads_are_noted_at_the_same_time() -> None:
    """Callbacks may run on the thread of a failed `send`, while the I/O thread notes its own waits."""
    journal = Journal(linger=0.0, clock=time.monotonic)

    def note() -> None:
        journal.add(WaitKind.CALLBACKS, 0.0, 1.0)

    at_once(note, note, lambda: len(journal.notes.intervals))


def test_several_threads_add_plugins_to_be_closed() -> None:
    """As `send_table` does with a serializer that it makes."""
    closer, closed = PluginCloser(), list[int]()
    numbers = itertools.count()

    def add() -> None:
        if len(closer._waiting) < 1_000:
            closer.add("serializer", SimpleNamespace(close=partial(closed.append, next(numbers))))

    at_once(add, add, add)
    closer.close(HANG_GUARD)

    assert sorted(closed) == list(range(next(numbers)))
    assert len(closed) > 100


def test_headers_in_a_dict_may_change_while_they_are_sent() -> None:
    headers: dict[str, bytes | None] = {}

    def change() -> None:
        for number in range(20):
            headers[f"name {number}"] = b"content"
        headers.clear()

    at_once(change, lambda: checked_headers(headers))
