"""Requests leave when they may: no call waits for a round trip, or for the I/O thread, that it does not need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla import Producer
from ottla.protocol import PRODUCE
from ottla_testkit.simulation import Link, LinkConditions, SimulatedCluster, Simulation

ROUND_TRIP = 0.01
VERSIONS = [0, 1, 2]


class Place:
    """A cluster of three brokers, with a topic t that has a partition on each, and when requests arrive there."""

    def __init__(self, transaction_version: int) -> None:
        self.cluster = SimulatedCluster.of(1, 2, 3)
        self.cluster.create("t", 1, 2, 3)
        self.cluster.sources["source"] = 1
        self.cluster.transaction_version = transaction_version
        self.simulation = Simulation(self.cluster)
        network = self.simulation.network
        network.wire = LinkConditions(round_trip=ROUND_TRIP)
        self.produced: list[float] = []
        take = network.take

        def noting(link: Link, frame: bytes) -> object:
            if int.from_bytes(frame[:2], "big") == PRODUCE.key:
                self.produced.append(self.simulation.clock())
            return take(link, frame)

        network.take = noting  # type: ignore[method-assign,assignment]

    def run(self, program: Callable[[Producer], object]) -> None:
        """Run a program with a producer whose id and connections are there."""
        producer = self.simulation.producer(transactional_id="id", linger_ms=0)

        def whole() -> None:
            producer.init_transactions()
            with producer.transaction():
                for partition in range(3):
                    producer.send("t", b"first", partition=partition, timestamp_ms=1).result(20)
                producer.send_offsets_to_transaction({("source", 0): 1}, "group")
            self.produced.clear()
            program(producer)
            producer.close(20)

        self.simulation.run(whole)


@pytest.mark.rule("producer.transactions")
@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_do_not_wait_for_an_io_thread_that_rests(version: int) -> None:
    """It rests after records that are awaited one by one, whose threads run the rounds."""
    place = Place(version)
    took = []

    def program(producer: Producer) -> None:
        for number in range(3):
            producer.begin_transaction()
            for _record in range(5):
                producer.send("t", b"awaited", partition=0, timestamp_ms=1).result(20)
            began = place.simulation.clock()
            producer.send_offsets_to_transaction({("source", 0): number + 2}, "group")
            took.append(place.simulation.clock() - began)
            producer.commit_transaction()

    place.run(program)

    requests = 1 if version == 2 else 2  # AddOffsetsToTxn before
    assert took == [pytest.approx(requests * ROUND_TRIP, abs=0.002)] * 3


@pytest.mark.rule("producer.transactions")
@pytest.mark.parametrize("version", VERSIONS)
def test_records_do_not_wait_for_the_offsets_behind_them(version: int) -> None:
    place = Place(version)
    sent_at = 0.0

    def program(producer: Producer) -> None:
        nonlocal sent_at
        producer.begin_transaction()
        sent_at = place.simulation.clock()
        for partition in range(3):
            producer.send("t", b"record", partition=partition, timestamp_ms=1)
        producer.send_offsets_to_transaction({("source", 0): 2}, "group")
        producer.commit_transaction()

    place.run(program)

    added = 0.0 if version == 2 else ROUND_TRIP  # AddPartitionsToTxn before
    arrival = pytest.approx(sent_at + added + ROUND_TRIP / 2, abs=0.003)
    assert place.produced == [arrival] * 3
