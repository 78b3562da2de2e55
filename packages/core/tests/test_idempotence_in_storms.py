"""Thousands of simulated histories: whatever the weather, each record is written once and in order, or told as failed.

A history is one seed; `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs more of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from ottla.delivery import Delivery
from ottla.errors import DeliveryFailed
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster, StormyNetwork, Weather
from ottla_testkit.simulation.refusals import ANY
from simulated_producer import Simulated, simulated

pytestmark = pytest.mark.unmeasured

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


ONE_BY_ONE = {"batch_size": 1, "batch_growth_enable": False, "linger_ms": 0}
"""Each record is a batch."""
TOGETHER = {"linger_ms": 50, "batch_size": 2_000}
"""Several records are a batch, which may be split."""
HARSH = Weather(refused=0.2, refusals=ANY)


@attrs.frozen(kw_only=True)
class Story:
    """What a history is about; `everything`: every record arrives."""

    settings: dict[str, Any]
    weather: Weather
    everything: bool = False


STORIES = {
    "patient": Story(settings={**ONE_BY_ONE, "delivery_timeout_ms": 120_000}, weather=Weather(), everything=True),
    "expiring": Story(settings={**ONE_BY_ONE, "delivery_timeout_ms": 2_000}, weather=Weather()),
    "refused": Story(settings={**ONE_BY_ONE, "retries": 2}, weather=HARSH),
    "refused and split": Story(settings={**TOGETHER, "retries": 3}, weather=HARSH),
}


@pytest.mark.rule("sender.retry.corrects", "sender.retry.stamp", "batch.possibly")
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_records_are_written_once_and_in_order_in_any_weather(story: Story) -> None:
    for seed in range(SEED, SEED + HISTORIES):
        try:
            history(seed, story)
        except BaseException as error:
            error.add_note(f"OTTLA_SEED={seed} OTTLA_HISTORIES=1")
            raise


def history(seed: int, story: Story) -> None:
    with simulated(1, 2, 3, network=stormy(seed), request_timeout_ms=1_000, **story.settings) as world:
        network = world.network
        assert isinstance(network, StormyNetwork)
        network.weather = story.weather
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
        if story.everything:
            assert all(delivery.exception(0) is None for _, _, delivery in deliveries)
