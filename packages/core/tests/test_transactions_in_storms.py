"""Simulated histories of transactions: whatever the weather, each is there wholly or not at all, as its end was told.

A history is one seed; `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs more of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from ottla.errors import AbortableError, TransactionFailed, TransactionTimeout
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster, StormyNetwork, Weather
from ottla_testkit.simulation.refusals import ANY_THAT_ABORTS
from simulated_producer import simulated

pytestmark = pytest.mark.unmeasured

SEED = int(os.environ.get("OTTLA_SEED", "1"))
HISTORIES = int(os.environ.get("OTTLA_HISTORIES", "60"))
PARTITIONS = 3
TRANSACTIONS = 8
MAX_BLOCK_MS = 20_000


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


def until_it_is_known(end: object) -> None:
    """Call again while time runs out: it is the same outcome that is waited for."""
    for _ in range(100):
        try:
            end()  # type: ignore[operator]
        except TransactionTimeout:
            continue
        return
    raise AssertionError("a hundred times, and the outcome is not known")


@attrs.frozen(kw_only=True)
class Story:
    """What a history is about. `everything`: no transaction fails; `old`: brokers give no new epoch (KIP-360)."""

    settings: dict[str, Any]
    weather: Weather
    everything: bool = False
    old: bool = False


STORIES = {
    "patient": Story(settings={"delivery_timeout_ms": 120_000}, weather=Weather(), everything=True),
    "expiring": Story(settings={"delivery_timeout_ms": 1_500}, weather=Weather()),
    "refused": Story(settings={"retries": 2}, weather=Weather(refused=0.1, refusals=ANY_THAT_ABORTS)),
}


OLD = Story(settings={"retries": 2}, weather=Weather(refused=0.1, refusals=ANY_THAT_ABORTS), old=True)


@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_transactions_are_there_wholly_or_not_at_all(version: int, story: Story) -> None:
    histories(version, story)


@pytest.mark.rule("sender.retry.corrects")
def test_a_producer_that_fails_for_good_leaves_no_transaction_in_part() -> None:
    histories(0, OLD)


def histories(version: int, story: Story) -> None:
    for seed in range(SEED, SEED + HISTORIES):
        try:
            history(seed, version, story)
        except BaseException as error:
            error.add_note(f"OTTLA_SEED={seed} OTTLA_HISTORIES=1")
            raise


def history(seed: int, version: int, story: Story) -> None:
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 1, 2, 3)
    cluster.transaction_version = version
    for broker in cluster.brokers.values() if story.old else ():
        broker.versions[INIT_PRODUCER_ID.key] = (0, 1)
    with simulated(
        cluster=cluster,
        network=stormy(seed),
        transactional_id="tx",
        request_timeout_ms=1_000,
        max_block_ms=MAX_BLOCK_MS,
        batch_size=1,
        batch_growth_enable=False,
        **story.settings,
    ) as world:
        network = world.network
        assert isinstance(network, StormyNetwork)
        network.weather = story.weather
        until_it_is_known(world.producer.init_transactions)
        expected: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        offsets = 0
        number = 0
        for turn in range(TRANSACTIONS):
            sent: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
            world.producer.begin_transaction()
            wants_commit = network.random.random() < 0.8
            try:
                for _ in range(network.random.randrange(8)):
                    partition = network.random.randrange(PARTITIONS)
                    world.producer.send("t", b"%d" % number, partition=partition)
                    sent[partition].append(number)
                    number += 1
                    if network.random.random() < 0.5:
                        world.round(until=world.clock() + network.random.uniform(0, 0.2))
                moves = network.random.random() < 0.4
                if moves:
                    until_it_is_known(lambda: world.producer.send_offsets_to_transaction({("in", 0): turn}, "g"))  # noqa: B023
                if wants_commit:
                    until_it_is_known(world.producer.commit_transaction)
                    for partition, numbers in sent.items():
                        expected[partition] += numbers
                    offsets = turn if moves else offsets
            except AbortableError:
                wants_commit = False
                if story.everything:
                    raise
            except TransactionFailed:
                if not story.old:
                    raise
                break
            if not wants_commit:
                try:
                    until_it_is_known(world.producer.abort_transaction)
                except TransactionFailed:
                    if not story.old:
                        raise
                    break
        network.calm()
        world.pass_time(5.0)
        for partition, numbers in expected.items():
            assert [int(value or b"") for value in cluster.topics["t"].committed(partition)] == numbers
        assert cluster.transactions.committed_offsets.get(("g", "in", 0), 0) == offsets
        assert all(not places for table in cluster.topics["t"].undecided.values() for places in table.values())
