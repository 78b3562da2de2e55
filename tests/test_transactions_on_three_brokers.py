"""Coordinators killed at random during transactions: each is visible as a whole or not at all, as was reported."""

from __future__ import annotations

import random
import threading

import attrs
import pytest
from long_forms import LONG

from ottla import Producer
from ottla.errors import AbortableTransactionError
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import WAIT, await_in_sync, chance, coordinator, new_id, read, transactional

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough("the gate kills brokers of idempotent producers, and programs with transactions"),
]

TRANSACTIONS = 200 if LONG else 30
KILLS = 25 if LONG else 2
PARTITIONS = 6
MAX_RECORDS = 40


@attrs.define
class Reported:
    """The reported outcome of each transaction, and its records."""

    kept: list[list[bytes]]
    committed: int = 0
    aborted: int = 0
    spoilt: int = 0


class Killer:
    """Kills the coordinator of an id at some moment of what follows, on a thread of its own; then lets it return."""

    def __init__(self, kafka: KafkaCluster, transactional_id: str, chance: random.Random) -> None:
        self.kills = 0
        self._kafka = kafka
        self._id = transactional_id
        self._chance = chance
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        """Kill within the next tenth of a second."""
        self.return_all()
        await_in_sync(self._kafka, "t", "__transaction_state")
        victim, wait = coordinator(self._kafka, self._id), self._chance.uniform(0, 0.1)
        self._thread = threading.Timer(wait, self._kafka.kill, [victim])
        self._thread.start()
        self.kills += 1

    def return_all(self) -> None:
        """Start the broker that was killed last again, and wait until it serves."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for node in set(self._kafka.nodes) - set(self._kafka.running):
            self._kafka.start(node)


def transact(
    producer: Producer, number: int, reported: Reported, *, dies: bool, chance: random.Random, killer: Killer
) -> None:
    """One transaction, in the midst of which its coordinator may die."""
    when = chance.choice(["before", "in the middle", "at the end"]) if dies else ""
    if when == "before":
        killer.soon()
    producer.begin_transaction()
    written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    records = chance.randint(1, MAX_RECORDS)
    for record in range(records):
        if when == "in the middle" and record == records // 2:
            killer.soon()
        partition = chance.randrange(PARTITIONS)
        value = b"%d.%d" % (number, record)
        producer.send("t", value, partition=partition)
        written[partition].append(value)
        if chance.random() < 0.05:
            producer.flush(WAIT)
    if when == "at the end":
        killer.soon()
    if chance.random() < 0.2:
        producer.abort_transaction()
        reported.aborted += 1
        return
    try:
        producer.commit_transaction()
    except AbortableTransactionError:
        producer.abort_transaction()
        reported.spoilt += 1
        return
    reported.committed += 1
    for partition, values in enumerate(written):
        reported.kept[partition] += values


def test_each_transaction_is_visible_completely_or_not_at_all_as_reported(three_kafkas: KafkaCluster) -> None:
    random, name = chance("coordinators"), new_id()
    deadly = random.sample(range(TRANSACTIONS), KILLS)
    reported = Reported(kept=[[] for _ in range(PARTITIONS)])
    three_kafkas.create_topic("t", partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
    killer = Killer(three_kafkas, name, chance("moments"))
    try:
        with transactional(three_kafkas, name, linger_ms=1) as producer:
            producer.init_transactions()
            for number in range(TRANSACTIONS):
                transact(producer, number, reported, dies=number in deadly, chance=random, killer=killer)
    finally:
        killer.return_all()
    found = read(three_kafkas.bootstrap_servers, "t", partitions=PARTITIONS)

    print(f"{reported.committed} committed, {reported.aborted} aborted, {reported.spoilt} undone; {killer.kills} kills")
    assert found == reported.kept
    assert killer.kills == KILLS
    assert reported.committed > TRANSACTIONS // 2
