"""The number of requests in flight while responses are slow; a request is written when `send` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from machine import Queues, cluster_of
from ottla.accumulator.accumulator import FILL_REQUEST_TO
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.build import SEALING_SECONDS
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.partition_queue import FOREVER
from ottla.errors import NetworkError
from ottla.protocol import PRODUCE
from ottla.recordbatch.sealed_records import SealedRecords
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import Link, SimulatedCluster, SimulatedNetwork
from ottla_testkit.simulation.pending_response import Response
from simulated_producer import Simulated, simulated

ONE_BY_ONE = {"batch.size": 1, "batch.growth.enable": False}
"""Each record is a batch."""

SEALED = 0.010 - SEALING_SECONDS
"""The time at which a batch with a linger of 10 ms is sent."""


class Counting(SimulatedNetwork):
    """Notes when brokers get Produce requests, and in which poll."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock) -> None:
        super().__init__(cluster, clock)
        self.arrivals: list[float] = []  # when brokers got Produce requests
        self.arrived_in: list[int] = []  # the poll in which each of them arrived

    def take(self, link: Link, frame: bytes) -> Response:
        if int.from_bytes(frame[:2], "big") == PRODUCE.key:
            self.arrivals.append(self.clock())
            self.arrived_in.append(self.polls)
        return super().take(link, frame)


@attrs.frozen
class FarAway:
    """A producer whose brokers answer nothing from now on, and when they got requests since then."""

    simulation: Simulated
    network: Counting

    def send(self, partition: int = 0, *, key: bytes | None = None) -> Delivery:
        return self.simulation.producer.send("t", b"value", partition=None if key else partition, key=key)

    def arrivals(self, seconds: float = 1.0) -> Sequence[object]:
        """The arrival times of requests within a period, counted from now."""
        began = self.simulation.clock()
        self.network.arrivals.clear()
        self.simulation.pass_time(seconds)
        return [pytest.approx(at - began) for at in self.network.arrivals]

    def polls(self, until: Callable[[], object]) -> int:
        """The number of polls until something has happened."""
        before = self.network.polls
        self.simulation.run_until(until)
        return self.network.polls - before


@contextmanager
def far_away(*leaders: int, answering: bool = False, **options: Any) -> Iterator[FarAway]:
    """A producer whose brokers have acknowledged a record of each partition."""
    with simulated(*leaders, network=Counting, **options) as simulation:
        assert isinstance(simulation.network, Counting)
        for partition in range(len(leaders)):
            simulation.producer.send("t", b"first", partition=partition)
        simulation.run_until_idle()
        simulation.network.holding = not answering
        yield FarAway(simulation, simulation.network)


@pytest.mark.rule("accumulator.ready.linger")
@pytest.mark.parametrize(
    ("linger_ms", "leaves_at"), [(0, 0.0), (1, 0.0009), (4, 0.0036), (5, 0.0045), (50, 0.0495), (5_000, 4.9995)]
)
def test_a_batch_is_sealed_in_time_for_a_request_at_linger_ms(linger_ms: int, leaves_at: float) -> None:
    with far_away(1, linger_ms=linger_ms) as far:
        far.send(0)

        assert far.arrivals(6) == [leaves_at]


# No request waits for a response while another one may be sent


@pytest.mark.rule("sender.round.more")
@pytest.mark.parametrize("idempotent", [True, False])
def test_five_requests_are_in_flight_before_the_first_response(idempotent: bool) -> None:
    with far_away(1, config={**ONE_BY_ONE, "enable.idempotence": idempotent}) as far:
        for _ in range(8):
            far.send()

        assert far.arrivals() == 5 * [0.0]
        far.network.holding = False
        far.simulation.run_until_idle()
        assert far.simulation.log() == [b"first"] + 8 * [b"value"]


@pytest.mark.rule("sender.round.more")
def test_all_requests_that_may_leave_are_sent_between_two_polls() -> None:
    with far_away(1, 2, config=ONE_BY_ONE) as far:
        far.network.arrived_in.clear()
        for number in range(20):
            far.send(number % 2)

        assert len(far.arrivals()) == 10
        assert len(set(far.network.arrived_in)) == 1


@pytest.mark.rule("sender.round.more")
def test_each_of_two_brokers_gets_as_many_requests_as_allowed() -> None:
    with far_away(1, 2, config={**ONE_BY_ONE, "max.in.flight.requests.per.connection": 3}) as far:
        for number in range(20):
            far.send(number % 2)

        assert far.arrivals() == 6 * [0.0]


@pytest.mark.rule("sender.round.more", "accumulator.ready.linger")
def test_a_batch_is_sent_after_its_linger_while_another_is_in_flight() -> None:
    with far_away(1, 1, linger_ms=10) as far:
        far.send(0)
        assert far.arrivals(0.011) == [SEALED]
        far.send(1)

        assert far.arrivals() == [SEALED]


@pytest.mark.rule("sender.round.more", "accumulator.ready.linger")
def test_keyed_records_are_sent_after_linger_while_others_are_in_flight() -> None:
    with far_away(1, 1, linger_ms=10) as far:
        far.send(0)
        assert far.arrivals(0.011) == [SEALED]
        far.send(key=b"key")

        assert far.arrivals() == [SEALED]


@pytest.mark.rule("sender.round.more", "producer.send.wakes")
def test_the_io_thread_is_woken_while_requests_are_in_flight() -> None:
    with far_away(1, 1, 1) as far:
        far.send(0)
        far.send(1)
        far.arrivals()
        before = far.network.wakeups

        far.send(2)

        assert far.network.wakeups == before + 1


@pytest.mark.rule("sender.round.more", "sender.round.metadata")
def test_records_are_sent_while_a_metadata_request_is_in_flight() -> None:
    with far_away(1, linger_ms=10) as far:
        far.send()
        assert far.arrivals(0.004) == []
        far.simulation.metadata.request_update()
        far.simulation.clock.advance(0.006)  # a round begins when both are due

        assert far.arrivals() == [0.0]


@pytest.mark.rule("sender.round.more")
def test_after_a_batch_that_cannot_be_encoded_the_next_is_sent_at_once() -> None:
    with far_away(1, config=ONE_BY_ONE) as far:
        seal = far.simulation.accumulator._drained.seal
        first, _second = far.send(), far.send()

        def broken_once(batch: ProducerBatch, node: int) -> SealedRecords:
            if batch is first._batch:
                raise ValueError("no")
            return seal(batch, node)

        far.simulation.accumulator._drained.seal = broken_once

        assert far.arrivals() == [0.0]


# Few requests for many partitions


def lingering(queues: Queues, partitions: int) -> list[int]:
    """A batch that has lingered and others that do; the partitions that leave in its request."""
    queues.append(partition=0)
    queues.clock.advance(0.004)
    for partition in range(1, partitions):
        queues.append(partition=partition)
    queues.clock.advance(0.001)
    return drained(queues, partitions)


def drained(queues: Queues, partitions: int) -> list[int]:
    leaders = cluster_of(*[1] * partitions)
    taken = queues.accumulator.drain(leaders, (1,), max_size=1_000_000, now=queues.clock())
    return [batch.partition for batches in taken.values() for batch in batches]


@pytest.mark.rule("accumulator.drain.company")
def test_a_batch_that_has_lingered_takes_other_batches_along() -> None:
    assert lingering(Queues(), partitions=8) == list(range(8))


@pytest.mark.rule("accumulator.drain.company")
def test_batches_taken_along_make_at_most_a_small_request() -> None:
    assert len(lingering(Queues(buffer_memory=10_000_000), partitions=3 * FILL_REQUEST_TO)) == FILL_REQUEST_TO


@pytest.mark.rule("accumulator.drain.company")
def test_a_request_with_many_batches_takes_none_along() -> None:
    queues = Queues()
    for partition in range(FILL_REQUEST_TO):
        queues.append(partition=partition)
    queues.clock.advance(0.005)
    queues.append(partition=FILL_REQUEST_TO)

    assert drained(queues, FILL_REQUEST_TO + 1) == list(range(FILL_REQUEST_TO))


@pytest.mark.rule("accumulator.drain.company", "accumulator.ready.backoff")
@pytest.mark.parametrize("seconds", [FOREVER, 0.006])
def test_batches_in_backoff_or_muted_are_not_taken_along(seconds: float) -> None:
    queues = Queues()
    failed, muted = queues.append(partition=1)._batch, queues.append(partition=2)._batch
    queues.clock.advance(0.005)
    drained(queues, 3)
    queues.accumulator.requeue(failed, NetworkError("gone"), queues.clock())
    queues.accumulator.unmute(muted, at=queues.clock() + seconds)
    queues.append(partition=0)
    queues.clock.advance(0.001)
    queues.append(partition=2)
    queues.clock.advance(0.004)

    assert drained(queues, partitions=3) == [0]


# A single request costs no more


@pytest.mark.rule("sender.round.waits")
def test_a_single_record_is_sent_and_acknowledged_in_one_round() -> None:
    with far_away(1, answering=True) as far:
        assert far.polls(until=far.send().done) == 1


@pytest.mark.rule("sender.round.waits")
def test_records_that_are_sent_together_complete_in_one_round() -> None:
    with far_away(1, 1, 1, answering=True) as far:
        sent = [far.send(partition) for partition in range(3)]

        assert far.polls(until=sent[-1].done) == 1


@pytest.mark.rule("sender.round.waits")
def test_a_lingering_batch_costs_no_round_before_it_is_due() -> None:
    with far_away(1, 1, answering=True, linger_ms=10) as far:
        first = far.send(0)
        far.simulation.clock.advance(0.010)
        far.send(1)

        assert far.polls(until=first.done) == 1


@pytest.mark.rule("sender.round.spin")
def test_while_five_requests_are_in_flight_there_are_no_rounds() -> None:
    with far_away(1, config=ONE_BY_ONE) as far:
        for _ in range(20):
            far.send()
        far.arrivals()
        end = far.simulation.clock() + 9.0

        assert far.polls(until=lambda: far.simulation.clock() >= end) < 3
