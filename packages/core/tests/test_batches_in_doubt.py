"""A batch that failed and may be written all the same: its numbers are not used again, and no later record is lost.

Brokers answer some codes after the append, too. The next batch with the same numbers would be a repetition for them:
acknowledged, and dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.delivery import Delivery
from ottla.errors import (
    AbortableTransactionError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    FatalTransactionError,
    ProducerClosedError,
    TransactionAbortedError,
)
from ottla.interfaces import Encoded
from ottla.protocol import ProduceRequest, ProduceResponse
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.recordbatch.objects import ObjectColumns
from ottla.sender.leader_doubts import DOUBT_SECONDS, LeaderDoubts
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, SEQUENCE_ERRORS, ProduceErrorAction
from ottla.sender.produce_error_origins import REFUSED_BEFORE_APPEND
from ottla.transactions import SharedTransaction
from ottla_testkit.simulation import AfterAppend, SimulatedBroker, SimulatedCluster
from simulated_producer import Simulated, simulated

pytestmark = pytest.mark.unmeasured

ONE_BY_ONE = {"batch.size": 1, "batch.growth.enable": False}
"""Each record is a batch."""

UNKNOWN_NUMBER = 31_999
IN_DOUBT: Sequence[int] = [
    *(
        code
        for code in ErrorCode
        if code not in REFUSED_BEFORE_APPEND and PRODUCE_ERROR_ACTIONS[code] is not ProduceErrorAction.ACKNOWLEDGED
    ),
    UNKNOWN_NUMBER,
]
MOVED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
]
"""Responses of a broker that appended a batch and lost its partition while it waited for the followers."""


def name(code: int) -> str:
    return code.name if isinstance(code, ErrorCode) else str(code)


def epochs(simulation: Simulated, partition: int = 0) -> set[int]:
    return {entry.epoch for entry in simulation.cluster.topics["t"].producers[partition].entries.values()}


def failure(delivery: Delivery) -> DeliveryError:
    error = delivery.exception(0)
    assert error is not None
    return error


def move_out_of_reach(simulation: Simulated) -> None:
    """Broker 2, which has all that 1 has, leads partition 0 now, and we cannot reach it."""
    topic = simulation.cluster.topics["t"]
    topic.move_leader(0, 2)
    simulation.network.hosts.refusing.add("broker-2")
    simulation.network.cut(2)


# Without transactions


def sent_second(simulation: Simulated, *codes: int | AfterAppend) -> Delivery:
    """The second record's delivery, whose attempts will get these answers; the first record is acknowledged."""
    simulation.producer.send("t", b"first")
    simulation.run_until_idle()
    simulation.cluster.brokers[1].codes += codes
    return simulation.producer.send("t", b"second")


def second_after(simulation: Simulated, *codes: int | AfterAppend) -> Delivery:
    """The same once its attempts have got them."""
    delivery = sent_second(simulation, *codes)
    simulation.run_until_idle()
    return delivery


@pytest.fixture
def _doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that refuse a batch for its number may not be the leader of its partition."""
    monkeypatch.setattr(ProducerBatch, "has_newest_leader", lambda _batch: False)


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.parametrize("doubted", [True, False])
def test_a_batch_that_another_leader_may_have_waits_for_it(doubted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that may have lost the partition unnoticed lacks the batch, which another one may have."""
    monkeypatch.setattr(ProducerBatch, "has_newest_leader", lambda _batch: not doubted)
    with simulated(1, config=ONE_BY_ONE) as simulation:
        delivery = second_after(
            simulation,
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3,
        )

        assert delivery.exception() is None
        assert simulation.log() == [b"first", b"second", *([] if doubted else [b"second"])]


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_a_doubt_is_over_with_another_answer() -> None:
    """Else the next broker that was replaced unnoticed would be believed at once."""
    with simulated(1, config=ONE_BY_ONE) as simulation:
        delivery = second_after(
            simulation,
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            *[ErrorCode.NOT_ENOUGH_REPLICAS] * 45,  # for longer than the doubt
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        )

        assert delivery.exception() is None
        assert simulation.log() == [b"first", b"second"]


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_a_doubt_is_over_with_a_response_without_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete: list[ProduceResponse] = []

    def edit(broker: SimulatedBroker, _request: ProduceRequest, response: ProduceResponse) -> ProduceResponse:
        [[partition]] = (topic.partition_responses for topic in response.responses)
        if partition.error_code == ErrorCode.NONE and partition.base_offset and len(incomplete) < 45:
            incomplete.append(response)
            response.responses[0].partition_responses = []
            if len(incomplete) == 45:  # for longer than the doubt
                broker.codes += (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,)
        return response

    monkeypatch.setattr(SimulatedBroker, "edit", edit)
    with simulated(1, config=ONE_BY_ONE) as simulation:
        delivery = second_after(
            simulation,
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        )

        assert len(incomplete) == 45
        assert delivery.exception() is None
        assert simulation.log() == [b"first", b"second"]


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_a_doubt_is_over_with_a_lost_response() -> None:
    """What was between the two answers that lack batches is not known."""
    with simulated(1, config=ONE_BY_ONE) as simulation:
        broker = simulation.cluster.brokers[1]
        delivery = sent_second(
            simulation, AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        simulation.run_until(lambda: not broker.codes and not delivery._batch.in_flight)
        broker.silent = True
        simulation.pass_time(40.0)  # for longer than the doubt
        broker.codes.append(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        broker.silent = False
        simulation.run_until_idle()

        assert delivery.exception() is None
        assert simulation.log() == [b"first", b"second"]


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_attempts_of_a_doubt_are_not_limited_by_retries() -> None:
    with simulated(1, config=ONE_BY_ONE, retries=1) as simulation:
        delivery = second_after(
            simulation,
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3,
        )

        assert delivery.exception() is None
        assert simulation.log() == [b"first", b"second"]


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_a_doubt_asks_for_the_leader() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        sent_second(simulation, ErrorCode.NOT_ENOUGH_REPLICAS, *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3)
        known = simulation.metadata.cluster
        simulation.run_until(lambda: len(simulation.cluster.brokers[1].codes) == 3)
        assert simulation.metadata.cluster is known
        simulation.run_until_idle()

        assert simulation.metadata.cluster is not known


@pytest.mark.rule("sender.answer.doubt")
@pytest.mark.usefixtures("_doubted")
def test_the_parts_of_a_batch_wait_for_another_leader_once() -> None:
    with simulated(1, linger_ms=10) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        broker = simulation.cluster.brokers[1]
        broker.codes += [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.MESSAGE_TOO_LARGE,
            *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 200,
        ]
        parts = [simulation.producer.send("t", b"%d" % number * 50) for number in range(6)]
        started = simulation.clock()
        simulation.run_until(lambda: all(part.done() for part in parts))

        assert len({part._place()[0] for part in parts}) > 1
        assert all(failure(part).possibly_persisted for part in parts)
        assert DOUBT_SECONDS <= simulation.clock() - started < 2 * DOUBT_SECONDS


@pytest.mark.rule("sender.answer.doubt")
def test_another_broker_that_lacks_a_batch_is_another_doubt() -> None:
    doubts = LeaderDoubts()
    batch = ProducerBatch(topic="t", partition=0, columns=ObjectColumns(1), now=0.0)
    batch.last_node = 1
    assert not doubts.is_settled(batch, 0.0)
    assert doubts.is_settled(batch, DOUBT_SECONDS)
    batch.last_node = 2
    assert not doubts.is_settled(batch, DOUBT_SECONDS)
    batch.last_node = 1
    assert not doubts.is_settled(batch, DOUBT_SECONDS)


def test_a_batch_of_a_forgotten_producer_may_be_written_and_deleted() -> None:
    """It is sent again; if it is refused then, readers may have got it before it was deleted."""
    with simulated(1, config=ONE_BY_ONE) as simulation:
        delivery = second_after(
            simulation,
            AfterAppend(ErrorCode.REQUEST_TIMED_OUT),
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )

        assert failure(delivery).possibly_persisted


@pytest.mark.rule("sender.retry.corrects", "batch.possibly")
@pytest.mark.parametrize("code", IN_DOUBT, ids=name)
def test_the_next_record_is_written_after_any_ambiguous_error(code: int) -> None:
    with simulated(1, config=ONE_BY_ONE, retries=1) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [AfterAppend(code), ErrorCode.NOT_ENOUGH_REPLICAS]
        doubtful = simulation.producer.send("t", b"doubtful")
        simulation.run_until(doubtful.done)
        simulation.cluster.brokers[1].codes.clear()
        following = simulation.producer.send("t", b"following")
        simulation.run_until_idle()

        assert failure(doubtful).possibly_persisted
        assert simulation.log() == [b"before", b"doubtful", b"following"]
        assert following.result(0).offset == 2
        assert epochs(simulation) == {1}


@pytest.mark.rule("sender.retry.corrects", "batch.possibly")
@pytest.mark.parametrize(
    "code",
    # `retries` does not limit the attempts while the previous transaction ends.
    sorted(
        REFUSED_BEFORE_APPEND - SEQUENCE_ERRORS - {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS}
    ),
    ids=name,
)
def test_sequences_are_reused_after_an_error_before_the_append(code: ErrorCode) -> None:
    with simulated(1, config=ONE_BY_ONE, retries=1) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [code, code]
        refused = simulation.producer.send("t", b"refused")
        simulation.run_until(refused.done)
        simulation.cluster.brokers[1].codes.clear()
        following = simulation.producer.send("t", b"following")
        simulation.run_until_idle()

        assert not failure(refused).possibly_persisted
        assert simulation.log() == [b"before", b"following"]
        assert following.result(0).offset == 1
        assert epochs(simulation) == {0}


@pytest.mark.rule("sender.retry.corrects", "accumulator.expire.sequence")
@pytest.mark.parametrize("code", MOVED, ids=name)
def test_a_record_that_expires_after_a_leader_change_hides_no_other(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ottla")
    with simulated(
        1, 2, config=ONE_BY_ONE, client_id="shop", delivery_timeout_ms=20_000, request_timeout_ms=5_000
    ) as simulation:
        for partition in (0, 1):
            simulation.producer.send("t", b"before", partition=partition)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(AfterAppend(code))
        doubtful = simulation.producer.send("t", b"doubtful", partition=0)
        simulation.run_until(lambda: len(simulation.log()) == 2)
        move_out_of_reach(simulation)
        simulation.run_until(doubtful.done)
        simulation.network.hosts.refusing.clear()
        following = simulation.producer.send("t", b"following", partition=0)
        simulation.run_until_idle()

        assert isinstance(failure(doubtful), DeliveryTimeoutError)
        assert failure(doubtful).possibly_persisted
        assert simulation.log() == [b"before", b"doubtful", b"following"]
        assert following.result(0).offset == 2
        assert "shop: t-0: a failed batch may have been written" in caplog.text


@pytest.mark.rule("batch.possibly")
@pytest.mark.parametrize("acks", ["all", "1"])
def test_maybe_written_is_reported_without_idempotence_too(acks: str) -> None:
    with simulated(1, enable_idempotence=False, acks=acks, retries=0) as simulation:
        simulation.cluster.brokers[1].codes += [AfterAppend(ErrorCode.KAFKA_STORAGE_ERROR)]
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert failure(delivery).possibly_persisted
        assert "the broker may have written them" in str(failure(delivery))


@pytest.mark.rule("batch.possibly")
def test_records_that_a_broker_names_may_be_written_by_an_earlier_try() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.cluster.brokers[1].codes += [AfterAppend(ErrorCode.REQUEST_TIMED_OUT)]
        simulation.cluster.brokers[1].codes += [ErrorCode.INVALID_RECORD]
        simulation.cluster.brokers[1].named_records = {0: "no key"}
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert "the broker refused the record" in str(failure(delivery))
        assert failure(delivery).possibly_persisted
        assert simulation.log() == [b"v"]


@pytest.mark.rule("sender.retry.corrects")
def test_a_leader_change_with_an_acknowledgement_costs_no_epoch() -> None:
    with simulated(1, 2, config=ONE_BY_ONE) as simulation:
        for partition in (0, 1):
            simulation.producer.send("t", b"before", partition=partition)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        deliveries = [simulation.producer.send("t", b"%d" % number, partition=0) for number in range(8)]
        simulation.run_until(lambda: len(simulation.log()) > 1)
        topic = simulation.cluster.topics["t"]
        topic.move_leader(0, 2)
        simulation.run_until_idle()

        assert [delivery.exception(0) for delivery in deliveries] == [None] * 8
        assert simulation.log() == [b"before", *(b"%d" % number for number in range(8))]
        assert epochs(simulation) == {0}


@pytest.mark.rule("accumulator.order.window")
def test_other_batches_follow_a_retry_to_a_new_leader_at_once() -> None:
    with simulated(1, 2, config=ONE_BY_ONE) as simulation:
        for partition in (0, 1):
            simulation.producer.send("t", b"before", partition=partition)
        simulation.run_until_idle()
        topic = simulation.cluster.topics["t"]
        topic.move_leader(0, 2)
        moved = simulation.producer.send("t", b"0", partition=0)
        simulation.run_until(lambda: simulation.metadata.cluster.leader("t", 0) == 2)
        simulation.network.held.add(2)
        later = [simulation.producer.send("t", b"%d" % number, partition=0) for number in range(1, 9)]
        simulation.run_until(lambda: moved._batch.in_flight)
        simulation.pass_time(1.0)

        assert sum(delivery._batch.in_flight for delivery in (moved, *later)) == 5
        simulation.network.held.clear()
        simulation.run_until_idle()
        assert simulation.log() == [b"before", *(b"%d" % number for number in range(9))]
        assert epochs(simulation) == {0}


@pytest.mark.rule("sender.answer.sequence", "batch.possibly")
def test_a_leader_without_the_previous_batch_proves_it_unwritten() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.INVALID_RECORD,
        ]
        refused = simulation.producer.send("t", b"refused")
        simulation.run_until_idle()
        following = simulation.producer.send("t", b"following")
        simulation.run_until_idle()

        assert not failure(refused).possibly_persisted
        assert following.result(0).offset == 1
        assert simulation.log() == [b"before", b"following"]
        assert epochs(simulation) == {1}


# Parts


@pytest.mark.rule("batch.possibly")
def test_parts_of_a_maybe_written_batch_are_maybe_written() -> None:
    with simulated(1, linger_ms=10, enable_idempotence=False, retries=3) as simulation:
        simulation.cluster.brokers[1].codes += [
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.INVALID_RECORD,
        ]
        deliveries = [simulation.producer.send("t", bytes(100)) for _ in range(2)]
        simulation.run_until_idle()

        assert [failure(delivery).possibly_persisted for delivery in deliveries] == [True, True]


@pytest.mark.rule("sender.retry.sequence", "sender.retry.corrects")
def test_a_written_batch_that_is_split_later_is_not_written_twice() -> None:
    with simulated(1, linger_ms=10) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [
            AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.MESSAGE_TOO_LARGE,  # max.message.bytes was lowered meanwhile
        ]
        values = [b"%d" % number * 50 for number in range(6)]
        deliveries = [simulation.producer.send("t", value) for value in values]
        simulation.run_until_idle()
        following = simulation.producer.send("t", b"following")
        simulation.run_until_idle()

        assert all(failure(delivery).possibly_persisted for delivery in deliveries)
        assert simulation.log() == [b"before", *values, b"following"]
        assert following.result(0).offset == 7


@pytest.mark.rule("accumulator.split.order")
def test_an_unwritten_batch_that_was_maybe_written_is_split_and_written() -> None:
    with simulated(1, linger_ms=10) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE]
        values = [b"%d" % number * 50 for number in range(6)]
        deliveries = [simulation.producer.send("t", value) for value in values]
        simulation.run_until_idle()

        assert [delivery.exception(0) for delivery in deliveries] == [None] * 6
        assert simulation.log() == [b"before", *values]
        assert epochs(simulation) == {0}


# In transactions


def transactional(*, version: int, oldest: bool = False) -> SimulatedCluster:
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 1, 2)
    cluster.transaction_version = version
    cluster.coordinator = 1
    if oldest:  # before KIP-360
        for broker in cluster.brokers.values():
            broker.versions[INIT_PRODUCER_ID.key] = (0, 1)
    return cluster


def spoil_a_transaction(simulation: Simulated, code: ErrorCode) -> Delivery:
    """A transaction is committed; of the next one a record is written, and given up."""
    producer = simulation.producer
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"before", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    simulation.cluster.brokers[1].codes.append(AfterAppend(code))
    doubtful = producer.send("t", b"doubtful", partition=0)
    simulation.run_until(lambda: len(simulation.log()) == 2)
    move_out_of_reach(simulation)
    simulation.run_until(doubtful.done)
    simulation.network.hosts.refusing.clear()
    return doubtful


EXPIRING = {"delivery.timeout.ms": 20_000, "request.timeout.ms": 5_000, "transactional.id": "x"}


@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("code", MOVED, ids=name)
def test_after_an_abort_of_a_maybe_written_batch_later_records_are_kept(version: int, code: ErrorCode) -> None:
    with simulated(cluster=transactional(version=version), config=EXPIRING) as simulation:
        doubtful = spoil_a_transaction(simulation, code)
        simulation.producer.abort_transaction()
        simulation.producer.begin_transaction()
        following = simulation.producer.send("t", b"following", partition=0)
        simulation.producer.commit_transaction()

        assert failure(doubtful).possibly_persisted
        assert following.result(0).offset == 2
        assert simulation.cluster.topics["t"].committed(0) == [b"before", b"following"]


@pytest.mark.rule("sender.retry.corrects")
def test_without_new_epochs_a_maybe_written_batch_is_fatal_after_abort() -> None:
    with simulated(cluster=transactional(version=0, oldest=True), config=EXPIRING) as simulation:
        spoil_a_transaction(simulation, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        simulation.producer.abort_transaction()
        simulation.producer.begin_transaction()
        following = simulation.producer.send("t", b"following", partition=0)
        with pytest.raises(FatalTransactionError, match=r"needs another epoch.*before 2\.5"):
            simulation.producer.commit_transaction()
        simulation.run_until_idle()

        assert following.exception(0) is not None
        assert simulation.cluster.topics["t"].committed(0) == [b"before"]
        assert not simulation.cluster.topics["t"].open_transactions[0]


def test_without_new_epochs_certain_refusals_are_survived() -> None:
    with simulated(cluster=transactional(version=0, oldest=True), config=EXPIRING) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        refused = producer.send("t", b"refused", partition=0)
        simulation.run_until(refused.done)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"following", partition=0)
        producer.commit_transaction()

        assert simulation.cluster.topics["t"].committed(0) == [b"following"]


@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_abort_of_a_maybe_written_batch_starts_a_new_epoch(version: int) -> None:
    with simulated(cluster=transactional(version=version), config=EXPIRING) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()
        simulation.cluster.brokers[1].codes.append(AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        doubtful = producer.send("t", b"doubtful", partition=0)
        simulation.run_until(lambda: doubtful._batch.attempts and not doubtful._batch.in_flight)
        producer.abort_transaction()
        producer.begin_transaction()
        following = producer.send("t", b"following", partition=0)
        producer.commit_transaction()

        assert isinstance(failure(doubtful), TransactionAbortedError)
        assert failure(doubtful).possibly_persisted
        assert following.result(0).offset == 1
        assert simulation.cluster.topics["t"].committed(0) == [b"following"]


@pytest.mark.parametrize("end", ["commit_transaction", "prepare_transaction"])
def test_a_maybe_written_batch_prevents_commit_and_prepare(end: str) -> None:
    with simulated(cluster=transactional(version=2), config={**EXPIRING, "retries": 1}) as simulation:
        simulation.producer.init_transactions()
        simulation.producer.begin_transaction()
        simulation.cluster.brokers[1].codes += [AfterAppend(ErrorCode.KAFKA_STORAGE_ERROR)] * 2
        simulation.producer.send("t", b"doubtful", partition=0)
        with pytest.raises(AbortableTransactionError, match="the broker may have written them"):
            getattr(simulation.producer, end)()
        simulation.producer.abort_transaction()

        assert simulation.log() == [b"doubtful"]
        assert simulation.cluster.topics["t"].committed(0) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leaving_with_a_maybe_written_batch_requires_an_abort(version: int) -> None:
    cluster = transactional(version=version)
    _code, producer_id, epoch = cluster.transactions.initialize("x", None)
    shared = SharedTransaction(transactional_id="x", producer_id=producer_id, epoch=epoch, level=version)
    with simulated(cluster=cluster, config={**EXPIRING, "retries": 1}) as simulation:
        simulation.producer.join_transaction(shared)
        simulation.cluster.brokers[1].codes += [AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        simulation.cluster.brokers[1].codes += [ErrorCode.NOT_ENOUGH_REPLICAS]
        simulation.producer.send("t", b"doubtful", partition=0)
        with pytest.raises(AbortableTransactionError, match="its owner has to abort it"):
            simulation.producer.leave_transaction()
        with pytest.raises(AbortableTransactionError):
            simulation.producer.send("t", b"following", partition=0)


def test_a_batch_that_a_stuck_io_thread_may_send_is_maybe_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encode = ObjectColumns.encode

    def held_up(columns: ObjectColumns, magic: int) -> Encoded:
        if not queued.done():
            simulation.accumulator.abort(
                ProducerClosedError("the I/O thread is held up in an encoder"), off_io_thread=True
            )
        return encode(columns, magic)

    with simulated(1, 1) as simulation:
        monkeypatch.setattr(ObjectColumns, "encode", held_up)
        encoded = simulation.producer.send("t", b"encoded", partition=0)
        queued = simulation.producer.send("t", b"queued", partition=1)
        simulation.round()

        assert failure(encoded).possibly_persisted
        assert not failure(queued).possibly_persisted
        assert simulation.log(1) == []
