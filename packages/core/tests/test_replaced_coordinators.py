"""A coordinator that was frozen and replaced answers from what it knew; no commit or abort is taken for carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ottla import Producer
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol import Message
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.end_txn import END_TXN
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions import ConsumerGroupMetadata
from ottla.transactions.confirmations import BELIEVED_AFTER, Confirmations
from ottla.transactions.coordinator_request import InitProducerId
from ottla.transactions.response_actions import (
    GroupAdded,
    PartitionsAdded,
    ProducerIdAssigned,
    RequestFailed,
    TransactionEnded,
)
from ottla.transactions.transaction_error_actions import TransactionErrorAction
from ottla.transactions.transaction_requests import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn
from ottla_testkit.simulation import LinkConditions, SimulatedCluster, Simulation
from ottla_testkit.simulation.outdated_coordinator import OutdatedCoordinator
from ottla_testkit.simulation.planned_faults import (
    CutConnections,
    HalfOpenConnections,
    MovedGroupCoordinator,
    ReplacedCoordinator,
    UnreachableBroker,
    plan,
)

pytestmark = pytest.mark.timeout(60)

ROUND_TRIP = 0.1
WHO = ProducerIdAndEpoch(id=1, epoch=0)
BOTH = [("t", 0), ("t", 1)]
IMPATIENT = {"request.timeout.ms": 1_000, "socket.connection.setup.timeout.ms": 500}


@pytest.mark.rule("producer.transactions.end-confirmed")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("offset", [False, True], ids=["records", "with an offset"])
def test_an_outdated_coordinator_ends_no_transaction(version: int, *, commit: bool, offset: bool) -> None:
    cluster = SimulatedCluster.of(1, 2)
    cluster.transaction_version = version
    cluster.create("t", 2)
    cluster.sources["in"] = 1
    simulation = Simulation(cluster, seed=1)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    plan(
        simulation,
        [
            MovedGroupCoordinator(at=0.0, broker=2),
            ReplacedCoordinator(at=2.0, seconds=6.0, broker=1, next_coordinator=2, elected=0.5, unaware=2.0),
            CutConnections(at=9.0 + ROUND_TRIP * 0.25, broker=2, graceful=False),  # its end has not arrived
            UnreachableBroker(
                at=9.0 + ROUND_TRIP * 0.25, seconds=1.0, broker=2, black_hole=False
            ),  # so the first one is asked
        ],
    )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0, **IMPATIENT})

    def write(value: bytes) -> None:
        producer.begin_transaction()
        producer.send("t", value, timestamp_ms=1).result()
        if offset:
            producer.send_offsets_to_transaction({("in", 0): int(value)}, ConsumerGroupMetadata("g"))

    def program() -> None:
        producer.init_transactions()
        write(b"1")
        end = producer.commit_transaction if commit else producer.abort_transaction
        end()
        simulation.sleep(2.6 - simulation.clock())
        write(b"2")
        assert cluster.coordinates == 2
        assert simulation.clock() < 8.0
        simulation.sleep(9.0 - simulation.clock())
        end()
        assert not cluster.transactions.ids["x"].ongoing
        write(b"3")
        producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert cluster.topics["t"].committed(0) == ([b"1", b"2", b"3"] if commit else [b"3"])
    assert cluster.transactions.committed_offsets == ({("g", "in", 0): 3} if offset else {})


@pytest.mark.rule("producer.transactions.end-confirmed")
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
@pytest.mark.parametrize(("others", "unaware"), [((2,), 2.0), ((2, 3), 8.0)])
def test_an_outdated_coordinator_without_the_topic_ends_nothing(
    code: ErrorCode, others: Sequence[int], unaware: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it knows of topics and rights is as old as what it knows of transactions.

    If it stays outdated for longer than it is believed, a third broker has named the other coordinator by then.
    """
    answer = OutdatedCoordinator.answer

    def without_topic(
        self: OutdatedCoordinator, message: Message[Any, Any], transactional_id: str, ask: Callable[..., Any]
    ) -> Any:
        refuses = message is ADD_PARTITIONS_TO_TXN
        return ask(self.current, code) if refuses else answer(self, message, transactional_id, ask)

    monkeypatch.setattr(OutdatedCoordinator, "answer", without_topic)
    cluster = SimulatedCluster.of(1, *others)
    cluster.transaction_version = 1
    cluster.create("t", 1)
    simulation = Simulation(cluster, seed=1)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    end_at = 9.0 + ROUND_TRIP * 0.25
    plan(
        simulation,
        [
            ReplacedCoordinator(at=2.0, seconds=6.0, broker=1, next_coordinator=2, elected=0.5, unaware=unaware),
            CutConnections(at=end_at, broker=2, graceful=False),
            UnreachableBroker(at=end_at, seconds=1.0, broker=2, black_hole=False),
        ],
    )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0, **IMPATIENT})

    def program() -> None:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"1", timestamp_ms=1).result()
        simulation.sleep(3.0 - simulation.clock())
        cluster.create("new", 1)
        producer.begin_transaction()
        producer.send("new", b"2", timestamp_ms=1).result()
        simulation.sleep(9.0 - simulation.clock())
        producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert cluster.topics["new"].committed(0) == [b"2"]


def refuse_ends(monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> list[str]:
    """Let outdated coordinators refuse each commit and abort with this code; return the list of their ids."""
    answer, refused = OutdatedCoordinator.answer, list[str]()

    def refusing(
        self: OutdatedCoordinator, message: Message[Any, Any], transactional_id: str, ask: Callable[..., Any]
    ) -> Any:
        content = answer(self, message, transactional_id, ask)
        if message is not END_TXN:
            return content
        refused.append(transactional_id)
        return ask(self.current, code)

    monkeypatch.setattr(OutdatedCoordinator, "answer", refusing)
    return refused


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_a_lost_commit_is_not_called_aborted_by_an_outdated_coordinator(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that believed it would write the records once more."""
    refuse_ends(monkeypatch, code)
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 2)
    simulation = Simulation(cluster, seed=1)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    answered_at = 9.0 + ROUND_TRIP * 0.75
    plan(
        simulation,
        [
            ReplacedCoordinator(at=2.0, seconds=6.0, broker=1, next_coordinator=2, elected=0.5, unaware=4.0),
            CutConnections(at=answered_at, broker=2, graceful=False),  # the commit is carried out
            UnreachableBroker(at=answered_at, seconds=2.0, broker=2, black_hole=False),
        ],
    )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0, **IMPATIENT})

    def program() -> None:
        producer.init_transactions()
        simulation.sleep(2.6 - simulation.clock())
        for number in range(3):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, timestamp_ms=1).result()
            if number == 1:
                assert cluster.coordinates == 2
                simulation.sleep(9.0 - simulation.clock())
            producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert cluster.refused_by_outdated > 2
    assert cluster.topics["t"].committed(0) == [b"0", b"1", b"2"]


@pytest.mark.rule("producer.transactions.in-doubt")
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("seed", range(1, 7))
def test_another_broker_is_asked_about_a_coordinator_that_refuses(
    seed: int, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """The outdated one names itself; it may refuse again long after its first refusal, when the response was lost."""
    refuse_ends(monkeypatch, ErrorCode.INVALID_TXN_STATE)
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 2)
    simulation = Simulation(cluster, seed=seed)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    plan(
        simulation, [ReplacedCoordinator(at=2.0, seconds=6.0, broker=1, next_coordinator=2, elected=0.5, unaware=14.0)]
    )
    if lost:
        plan(
            simulation,
            [
                HalfOpenConnections(at=8.95, broker=2, out=False, back=True),  # the commit is carried out
                UnreachableBroker(at=8.95, seconds=6.0, broker=2, black_hole=False),
            ],
        )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0, "request.timeout.ms": 4_000})

    def program() -> None:
        producer.init_transactions()
        for number in range(2):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, timestamp_ms=1).result()
            producer.commit_transaction()
            simulation.sleep(max(0.0, 8.5 - simulation.clock()))
        producer.close()

    simulation.run(program)

    assert 1 <= cluster.refused_by_outdated <= 1 + lost
    assert cluster.topics["t"].committed(0) == [b"0", b"1"]


CUT_OFF: Final = ReplacedCoordinator(at=2.0, seconds=0.5, broker=1, next_coordinator=2, elected=0.1, unaware=60.0)
"""Broker 1 is replaced, and does not know it for a minute: controllers cannot reach it."""


def with_coordinator_cut_off(seed: int) -> tuple[SimulatedCluster, Simulation]:
    """Three brokers with a topic, the first of which is cut off."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 2)
    simulation = Simulation(cluster, seed=seed)
    plan(simulation, [CUT_OFF])
    return cluster, simulation


@pytest.mark.rule("producer.transactions.elsewhere")
@pytest.mark.parametrize("seed", range(8))
def test_after_a_refusal_another_broker_is_asked_for_the_coordinator(seed: int) -> None:
    """One that controllers cannot reach would name itself for as long as that lasts."""
    cluster, simulation = with_coordinator_cut_off(seed)
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0})

    def program() -> None:
        producer.init_transactions()
        for number in range(3):
            with producer.transaction():
                producer.send("t", b"%d" % number, timestamp_ms=1)
            simulation.sleep(max(0.0, 3.0 - simulation.clock()))
        producer.close()

    simulation.run(program)

    assert cluster.refused_by_outdated
    assert cluster.topics["t"].committed(0) == [b"0", b"1", b"2"]


@pytest.mark.rule("producer.transactions.elsewhere")
@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
)
@pytest.mark.parametrize("seed", range(3))
def test_an_abort_that_an_outdated_coordinator_refuses_goes_to_another(
    seed: int, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows an epoch of before, or no id, or takes the transaction for ended."""
    refused = refuse_ends(monkeypatch, code)
    cluster, simulation = with_coordinator_cut_off(seed)
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0})

    def program() -> None:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, timestamp_ms=1).result()
            end = producer.abort_transaction if number == 1 else producer.commit_transaction
            end()
            assert not cluster.transactions.ids["x"].ongoing
            simulation.sleep(max(0.0, 3.0 - simulation.clock()))
        producer.close()

    simulation.run(program)

    assert refused
    assert cluster.topics["t"].committed(0) == [b"0", b"2"]


@pytest.mark.rule("producer.transactions.elsewhere")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("offset", [False, True], ids=["records", "with an offset"])
def test_an_outdated_coordinator_that_knows_an_older_epoch_does_not_fence(version: int, *, offset: bool) -> None:
    """Before KIP-890 too: the epoch was begun at the coordinator that has taken its place."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.transaction_version = version
    cluster.create("t", 2)
    cluster.sources["in"] = 1
    simulation = Simulation(cluster, seed=1)
    plan(
        simulation,
        [
            MovedGroupCoordinator(at=0.0, broker=3),
            CUT_OFF,
            *(CutConnections(at=5.0, broker=broker, graceful=False) for broker in (2, 3)),
            UnreachableBroker(at=5.0, seconds=1.0, broker=2, black_hole=False),  # so the outdated one is asked
        ],
    )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0, **IMPATIENT})

    def program() -> None:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            if offset:
                producer.send_offsets_to_transaction({("in", 0): number}, ConsumerGroupMetadata("g"))
            producer.send("t", b"%d" % number, timestamp_ms=1)
            if number == 1:
                assert cluster.coordinates == 2
                producer.prepare_transaction()  # its epoch is not used again
            producer.commit_transaction()
            simulation.sleep(max(0.0, (3.0, 3.5, 5.1, 0.0)[number] - simulation.clock()))
        producer.close()

    simulation.run(program)

    assert cluster.refused_by_outdated
    assert cluster.topics["t"].committed(0) == [b"0", b"1", b"2", b"3"]


@pytest.mark.rule("producer.transactions.elsewhere")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("same", [False, True], ids=["another producer", "the same producer"])
def test_a_coordinator_that_is_busy_for_long_is_looked_up_again(version: int, *, same: bool) -> None:
    """It was replaced while it ended a transaction, and would be busy with that for as long as it does not know it."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.transaction_version = version
    cluster.transactions.channel = None
    cluster.transactions.marker_seconds = 1.0
    cluster.create("t", 2)
    simulation = Simulation(cluster, seed=1)
    plan(
        simulation,
        [
            ReplacedCoordinator(at=2.0, seconds=0.5, broker=1, next_coordinator=2, elected=0.1, unaware=300.0),
            UnreachableBroker(at=2.6, seconds=3.0, broker=2, black_hole=False),
            UnreachableBroker(at=2.6, seconds=3.0, broker=3, black_hole=False),
        ],
    )
    config = {"transactional.id": "x", "linger.ms": 0, **IMPATIENT}

    def write(producer: Producer, value: bytes) -> None:
        with producer.transaction():
            producer.send("t", value, timestamp_ms=1)

    def program() -> None:
        producer = simulation.producer(config)
        producer.init_transactions()
        simulation.sleep(1.8 - simulation.clock())
        write(producer, b"1")
        assert simulation.clock() < 2.0
        simulation.sleep(2.7 - simulation.clock())
        if not same:
            producer.close()
            producer = simulation.producer(config)
            producer.init_transactions()
        write(producer, b"2")
        assert simulation.clock() < 30.0
        producer.close()
        simulation.sleep(2.0)  # markers

    simulation.run(program)

    assert cluster.refused_by_outdated
    assert cluster.topics["t"].committed(0) == [b"1", b"2"]


def adding(*partitions: tuple[str, int]) -> AddPartitionsToTxn:
    return AddPartitionsToTxn("x", WHO, partitions)


@pytest.fixture
def confirmed() -> Confirmations:
    """A transaction of two partitions and a group, which broker 1 has confirmed."""
    confirmations = Confirmations()
    assert confirmations.note(adding(*BOTH), PartitionsAdded(BOTH), 1, 0.0)
    assert confirmations.note(AddOffsetsToTxn("x", WHO, "g"), GroupAdded(), 1, 0.0)
    return confirmations


def test_another_coordinator_confirms_everything_again(confirmed: Confirmations) -> None:
    assert confirmed.elsewhere(1) == ([], [])
    assert confirmed.elsewhere(None) == ((), ())
    assert confirmed.elsewhere(2) == (BOTH, ["g"])

    confirmed.note(adding(("t", 1)), PartitionsAdded([("t", 1)]), 2, 0.0)
    assert confirmed.elsewhere(2) == ([("t", 0)], ["g"])
    assert confirmed.elsewhere(1) == ([("t", 1)], [])


def test_the_next_transaction_has_nothing_to_confirm(confirmed: Confirmations) -> None:
    confirmed.note(SimpleNamespace(), TransactionEnded(None), 1, 0.0)  # type: ignore[arg-type]

    assert confirmed.elsewhere(2) == ([], [])


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TransactionErrorAction.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionErrorAction.ABORTABLE),
    ],
)
def test_a_part_that_cannot_be_added_again_does_not_stop_the_end(
    confirmed: Confirmations, code: ErrorCode, action: TransactionErrorAction
) -> None:
    failure = RequestFailed(action, BrokerError(code))
    add_group = AddOffsetsToTxn("x", WHO, "g")

    assert confirmed.note(adding(("u", 0)), failure, 1, 0.0) is failure  # it was not added before: its own failure
    for request in (adding(("t", 0)), add_group):  # perhaps the coordinator is outdated
        again = confirmed.note(request, failure, 2, 5.0)
        assert again == RequestFailed(TransactionErrorAction.REFIND, failure.error)
    assert confirmed.elsewhere(2) == (BOTH, ["g"])
    for request in (adding(("t", 0)), add_group):
        assert confirmed.note(request, failure, 2, 5.0 + BELIEVED_AFTER) is None
    assert confirmed.elsewhere(2) == ([("t", 1)], [])

    confirmed.note(SimpleNamespace(), TransactionEnded(None), 2, 9.0)  # type: ignore[arg-type]
    confirmed.note(adding(("t", 0)), PartitionsAdded([("t", 0)]), 1, 9.0)
    assert confirmed.note(adding(("t", 0)), failure, 2, 9.0) is not None  # the next transaction has its own time


def test_a_coordinator_without_the_transaction_is_believed_at_once(confirmed: Confirmations) -> None:
    """It refuses the end with the same code."""
    forgotten = RequestFailed(TransactionErrorAction.FATAL, BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING))

    assert confirmed.note(adding(("t", 0)), forgotten, 2, 0.0) is None
    assert confirmed.elsewhere(2) == ([("t", 1)], ["g"])


def test_an_end_that_is_refused_forgets_no_confirmation(confirmed: Confirmations) -> None:
    """It may be repeated at another coordinator; otherwise a new epoch follows."""
    end = EndTxn(transactional_id="x", producer_id_and_epoch=WHO, commit=False, txn_v2=False)
    refused = TransactionEnded(None, refusal=BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING))

    assert confirmed.note(end, refused, 2, 0.0) is refused
    assert confirmed.elsewhere(2) == (BOTH, ["g"])
    init = InitProducerId(transactional_id="x", timeout_ms=1)
    assert confirmed.note(init, ProducerIdAssigned(producer_id_and_epoch=WHO, transaction_open=False), 2, 0.0)
    assert confirmed.elsewhere(2) == ([], [])


def test_a_busy_coordinator_is_asked_again(confirmed: Confirmations) -> None:
    busy = RequestFailed(TransactionErrorAction.RETRY, BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS))

    assert confirmed.note(adding(*BOTH), busy, 2, 0.0) is busy
    assert confirmed.elsewhere(2) == (BOTH, ["g"])
