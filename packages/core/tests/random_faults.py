"""Histories of a producer with random faults: everything that happens in one is a function of its seed.

`python random_faults.py KIND FIRST LAST` runs a range of seeds, prints each history's trace (or how it failed), and
ends with 1 if one failed. `KINDS` has the kinds.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import attrs
import error_copies
from long_forms import LONG

from ottla.accumulator.delivery import Delivery
from ottla.errors import (
    AbortableTransactionError,
    DeliveryError,
    ErrorCode,
    FatalTransactionError,
    TransactionTimeoutError,
)
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import Chance, FaultRates, FaultyNetwork, SimulatedCluster
from ottla_testkit.simulation.produce_requests import Scripted
from ottla_testkit.simulation.refusals import ANY, ANY_THAT_ABORTS, RETRIABLE
from simulated_producer import Simulated, simulated

PARTITIONS: Final = 3
TOPICS: Final = ("t", "u")
BLOCK: Final = 250
COMPLETED_BY: Final = 150.0
"""Seconds: the faults last up to 100, and everything is complete soon after them."""


@attrs.frozen(kw_only=True)
class Scenario:
    """The kind of a history. `everything`: nothing may fail; `old`: brokers give no new epoch (KIP-360)."""

    settings: Mapping[str, object] = attrs.field(factory=dict)
    refused: float = 0.05
    refusals: Sequence[Scripted] = RETRIABLE
    everything: bool = False
    old: bool = False

    def fault_rates(self, chance: Chance) -> FaultRates:
        """Bad, or worse."""
        fault_rates = FaultRates().scaled(chance.choice((1, 2, 4)))
        return attrs.evolve(fault_rates, refused=max(self.refused, fault_rates.refused), refusals=self.refusals)


@attrs.frozen
class Sent:
    """A record and what its callback was called with."""

    number: int
    topic: str
    partition: int
    delivery: Delivery
    calls: list[BaseException | None]


@contextmanager
def quiet() -> Iterator[None]:
    """Without log lines, of which a history has thousands."""
    logger = logging.getLogger("ottla")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def batching(chance: Chance) -> Mapping[str, object]:
    """Batches of one record, of some, or of as many as come within a linger."""
    return chance.choice(
        (
            {"batch.size": 1, "batch.growth.enable": False},
            {"batch.size": 200, "batch.growth.enable": False, "linger.ms": 5},
            {"linger.ms": 0},
            {"batch.size": 200, "linger.ms": 300},
        )
    )


def records(
    seed: int,
    *,
    scenario: Scenario,
    idempotent: bool = True,
    count: int = 40,
    check: Callable[[Simulated, Sequence[Sent]], object] | None = None,
) -> str:
    """One history of `send`; its trace."""
    chance = Chance(seed)
    max_in_flight = chance.choice((1, 2, 5))
    config = {
        **batching(chance),
        **scenario.settings,
        "request.timeout.ms": 1_000,
        "client.id": "faults",
        "enable.idempotence": idempotent,
        "acks": "all" if idempotent else chance.choice(("all", "1")),
        "max.in.flight.requests.per.connection": max_in_flight,
    }
    with quiet(), simulated(cluster=cluster_of_three(), network=faulty_network(seed), config=config) as simulation:
        network = network_of(simulation)
        simulation.know("u")
        memory = simulation.pool.free
        network.fault_rates = scenario.fault_rates(chance)
        pause = chance.choice((0.02, 0.2, 0.5))
        crowded = chance.happens(0.4)
        sent = []
        for number in range(count):
            sent.append(send(simulation, chance, number, crowded=crowded))
            if crowded and chance.happens(0.8):
                continue  # more records for the same batch
            for _ in range(chance.randrange(4)):
                simulation.round(until=simulation.clock() + chance.uniform(0, pause))
        for _ in range(100):
            if simulation.sender.idle:
                break
            simulation.round(until=simulation.clock() + chance.choice((0.1, 1.0)))
        network.end_faults()
        simulation.run_until_idle()
        assert simulation.clock() < COMPLETED_BY, "it waited for nothing"
        simulation.pass_time(3.0)  # for what comes late
        in_order = idempotent or max_in_flight == 1
        (check or partial(check_logs, once=idempotent, in_order=in_order))(simulation, sent)
        assert simulation.pool.free == memory, "memory was not given back"
        if scenario.everything:
            assert all(record.delivery.exception(0) is None for record in sent), "a record failed without need"
        return network.trace.digest


def send(simulation: Simulated, chance: Chance, number: int, *, crowded: bool) -> Sent:
    """Send one record; *crowded*: where others go."""
    calls: list[BaseException | None] = []
    topic, partition = ("t", 0) if crowded else (chance.choice(TOPICS), chance.randrange(PARTITIONS))
    delivery = simulation.producer.send(
        topic,
        b"%d" % number,
        partition=partition,
        timestamp_ms=number,
        on_delivery=lambda delivery: calls.append(delivery.error),
    )
    return Sent(number, topic, partition, delivery, calls)


def check_logs(simulation: Simulated, sent: Sequence[Sent], *, once: bool, in_order: bool) -> None:
    """Check that the logs agree with the reports, and that each callback was called once with the same result."""
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            log = [int(record.value or b"") for record in simulation.cluster.topics[topic].log.get(partition, [])]
            here = [record for record in sent if (record.topic, record.partition) == (topic, partition)]
            acknowledged = [record.number for record in here if record.delivery.exception(0) is None]
            if once:
                assert sorted(set(log)) == sorted(log), "written twice"
            if in_order:
                kept = set(acknowledged)
                first = dict.fromkeys(number for number in log if number in kept)
                assert list(first) == acknowledged, "lost, or out of order"
            assert set(acknowledged) <= set(log), "an acknowledged record is missing"
            for record in here:
                check_one(record, log)


def check_one(record: Sent, log: Sequence[int]) -> None:
    error = record.delivery.exception(0)
    called = f"the callback of {record.number} was called with {record.calls}"
    assert len(record.calls) == 1, called
    assert error_copies.same(record.calls[0], error), called
    if isinstance(error, DeliveryError) and not error.possibly_persisted:
        assert record.number not in log, f"{record.number} was reported as not written: {error}"
    elif error is None and (offset := record.delivery.result(0).offset) >= 0:
        assert log[offset] == record.number, "the offset is another record's"


def transactions(seed: int, *, scenario: Scenario, version: int, count: int = 8) -> str:
    """One history of transactions; its trace."""
    chance = Chance(seed)
    cluster = cluster_of_three()
    cluster.transaction_version = version
    for broker in cluster.brokers.values() if scenario.old else ():
        broker.versions[INIT_PRODUCER_ID.key] = (0, 1)
    config = {
        **batching(chance),
        **scenario.settings,
        "request.timeout.ms": 1_000,
        "client.id": "faults",
        "transactional.id": "tx",
        "max.block.ms": 20_000,
    }
    with quiet(), simulated(cluster=cluster, network=faulty_network(seed), config=config) as simulation:
        network = network_of(simulation)
        simulation.know("u")
        network.fault_rates = scenario.fault_rates(chance)
        until_it_is_known(simulation.producer.init_transactions)
        history = TransactionHistory(simulation, chance, everything=scenario.everything)
        try:
            for turn in range(count):
                history.run(turn)
        except FatalTransactionError:
            if not scenario.old:
                raise
        network.end_faults()
        simulation.pass_time(5.0)
        for (topic, partition), numbers in history.committed.items():
            committed = [int(value or b"") for value in cluster.topics[topic].committed(partition)]
            assert committed == numbers, f"{topic}-{partition}: {committed}, and committed was {numbers}"
        assert cluster.transactions.committed_offsets.get(("g", "in", 0), 0) == history.offset
        for topic in TOPICS:
            open_ones = cluster.topics[topic].open_transactions.values()
            assert all(not places for table in open_ones for places in table.values()), "a transaction is left open"
        return network.trace.digest


class TransactionHistory:
    """The transactions of a history one after the other, and what they committed."""

    def __init__(self, simulation: Simulated, chance: Chance, *, everything: bool) -> None:
        self._simulation = simulation
        self._chance = chance
        self._everything = everything
        self._number = 0
        self.offset = 0
        self.committed: dict[tuple[str, int], list[int]] = {
            (topic, partition): [] for topic in TOPICS for partition in range(PARTITIONS)
        }

    def run(self, turn: int) -> None:
        """One transaction: records, perhaps offsets, and its end."""
        producer, chance = self._simulation.producer, self._chance
        sent: list[tuple[tuple[str, int], int]] = []
        producer.begin_transaction()
        commits = chance.happens(0.8)
        try:
            for _ in range(chance.randrange(8)):
                sent.append(self._send())
                if chance.happens(0.5):
                    self._simulation.round(until=self._simulation.clock() + chance.uniform(0, 0.2))
            moves = chance.happens(0.4)
            if moves:
                until_it_is_known(lambda: producer.send_offsets_to_transaction({("in", 0): turn}, "g"))
            if commits:
                until_it_is_known(producer.commit_transaction)
                for where, number in sent:
                    self.committed[where].append(number)
                self.offset = turn if moves else self.offset
        except AbortableTransactionError:
            commits = False
            if self._everything:
                raise
        if not commits:
            until_it_is_known(producer.abort_transaction)

    def _send(self) -> tuple[tuple[str, int], int]:
        topic, partition = self._chance.choice(TOPICS), self._chance.randrange(PARTITIONS)
        number, self._number = self._number, self._number + 1
        self._simulation.producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=number)
        return (topic, partition), number


def until_it_is_known(end: Callable[[], object]) -> None:
    """Call again while time runs out: it is the same outcome that is waited for."""
    for _ in range(100):
        try:
            end()
        except TransactionTimeoutError:
            continue
        return
    raise AssertionError("a hundred times, and the outcome is not known")


def cluster_of_three() -> SimulatedCluster:
    """Three brokers, and two topics of three partitions."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.sources["in"] = 1
    cluster.create("t", 1, 2, 3)
    cluster.create("u", 3, 1, 2)
    return cluster


def faulty_network(seed: int) -> Callable[[SimulatedCluster, ManualClock], FaultyNetwork]:
    """A network for `simulated`, whose faults this seed decides."""
    return lambda cluster, clock: FaultyNetwork(cluster, clock, seed)


def network_of(simulation: Simulated) -> FaultyNetwork:
    """The network of a simulation that was made with `faulty_network`."""
    assert isinstance(simulation.network, FaultyNetwork)
    return simulation.network


_TOO_LARGE: Final = ErrorCode.MESSAGE_TOO_LARGE
PATIENT: Final = Scenario(settings={"delivery.timeout.ms": 120_000}, everything=True)
TRANSACTION_SCENARIOS: Final[Mapping[str, Scenario]] = {
    "patient": PATIENT,
    "expiring": Scenario(settings={"delivery.timeout.ms": 1_500}),
    "refused": Scenario(settings={"retries": 2}, refused=0.1, refusals=ANY_THAT_ABORTS),
}
KINDS: Final[Mapping[str, Callable[[int], str]]] = {
    "patient": partial(records, scenario=PATIENT),
    "expiring": partial(records, scenario=Scenario(settings={"delivery.timeout.ms": 2_000})),
    "refused": partial(records, scenario=Scenario(settings={"retries": 2}, refused=0.2, refusals=ANY)),
    "split": partial(records, scenario=Scenario(refused=0.3, refusals=(*RETRIABLE, *len(RETRIABLE) * (_TOO_LARGE,)))),
    "unnumbered": partial(records, scenario=PATIENT, idempotent=False),
    **{
        f"transactions-{version}-{name}": partial(transactions, scenario=scenario, version=version)
        for version in (0, 1, 2)
        for name, scenario in TRANSACTION_SCENARIOS.items()
    },
    "transactions-old": partial(
        transactions, scenario=attrs.evolve(TRANSACTION_SCENARIOS["refused"], old=True), version=0
    ),
}


def blocks(count: int, *, soak: int) -> Sequence[range]:
    """The seeds to run: so many, or in the long form the other number, in parts that take some seconds each."""
    begin = int(os.environ.get("OTTLA_SEED", "1"))
    if LONG:
        count = soak
    end = begin + int(os.environ.get("OTTLA_HISTORIES", count))
    return [range(first, min(first + BLOCK, end)) for first in range(begin, end, BLOCK)]


def run(kind: str, seeds: range) -> None:
    """One history for each seed; a failure says how to run it again."""
    for seed in seeds:
        try:
            KINDS[kind](seed)
        except BaseException as error:
            error.add_note(f"again: python random_faults.py {kind} {seed} {seed}")
            raise


def main(arguments: Sequence[str]) -> int:
    kind, first, last = arguments[0], int(arguments[1]), int(arguments[2])
    failed = 0
    for seed in range(first, last + 1):
        try:
            print(kind, seed, KINDS[kind](seed), flush=True)
        except Exception as error:
            failed += 1
            print(kind, seed, f"FAILED {type(error).__name__}: {str(error)[:200]}", flush=True)
            if first == last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
