"""Thousands of simulated histories: whatever the weather, each record is written once and in order, or told as failed.

A history is one seed; `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs more of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

import pytest

from ottla.delivery import Delivery
from ottla.errors import DeliveryFailed
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster, StormyNetwork, Weather
from simulated_producer import Simulated, simulated

SEED = int(os.environ.get("OTTLA_SEED", "1"))
HISTORIES = int(os.environ.get("OTTLA_HISTORIES", "150"))
PARTITIONS = 3
RECORDS = 40
MOST_SECONDS = 115.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("ottla")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def stormy(seed: int) -> type[StormyNetwork]:
    class Stormy(StormyNetwork):
        def __init__(self, cluster: SimulatedCluster, clock: ManualClock) -> None:
            super().__init__(cluster, clock, seed)

    return Stormy


def written(world: Simulated, partition: int) -> list[int]:
    return [int(value or b"") for value in world.log(partition)]


def judge(world: Simulated, deliveries: Sequence[tuple[int, int, Delivery]]) -> None:
    """What is in the logs is what was told: acknowledged ones once, refused ones not, all in the order of sending."""
    for partition in range(PARTITIONS):
        log = written(world, partition)
        assert sorted(set(log)) == sorted(log), "written twice"
        sent = [(number, delivery) for number, where, delivery in deliveries if where == partition]
        acknowledged = [number for number, delivery in sent if delivery.exception(0) is None]
        assert [number for number in log if number in set(acknowledged)] == acknowledged, "lost, or out of order"
        for number, delivery in sent:
            error = delivery.exception(0)
            if isinstance(error, DeliveryFailed) and not error.possibly_persisted:
                assert number not in log, f"{number} was told as not written: {error}"
            elif error is None and delivery.result(0).offset >= 0:
                assert log[delivery.result(0).offset] == number


@pytest.mark.parametrize("delivery_timeout_ms", [120_000, 2_000], ids=["patient", "expiring"])
def test_records_are_written_once_and_in_order_in_any_weather(delivery_timeout_ms: int) -> None:
    for seed in range(SEED, SEED + HISTORIES):
        try:
            history(seed, delivery_timeout_ms)
        except BaseException as error:
            error.add_note(f"OTTLA_SEED={seed} OTTLA_HISTORIES=1")
            raise


def history(seed: int, delivery_timeout_ms: int) -> None:
    with simulated(
        1,
        2,
        3,
        network=stormy(seed),
        delivery_timeout_ms=delivery_timeout_ms,
        request_timeout_ms=1_000,
        batch_size=1,
        batch_growth_enable=False,
    ) as world:
        network = world.network
        assert isinstance(network, StormyNetwork)
        network.weather = Weather()
        deliveries = []
        for number in range(RECORDS):
            partition = network.random.randrange(PARTITIONS)
            deliveries.append((number, partition, world.producer.send("t", b"%d" % number, partition=partition)))
            for _ in range(network.random.randrange(6)):
                world.round(until=world.clock() + network.random.uniform(0, 0.2))
        for _ in range(100):
            world.round(until=world.clock() + network.random.choice((0.1, 1.0)))
        network.calm()
        world.settle()
        assert world.clock() < MOST_SECONDS, "it waited for nothing"
        world.pass_time(3.0)  # for what comes late
        judge(world, deliveries)
        if delivery_timeout_ms == 120_000:
            assert all(delivery.exception(0) is None for _, _, delivery in deliveries)
