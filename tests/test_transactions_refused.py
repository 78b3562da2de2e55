"""The effect of each refusal of each transactional request: retried, abortable or fatal, as in Java.

The brokers are librdkafka's mocks, which speak the protocol of transaction.version 0. The tables say what Java's
producer of 4.3 makes of each code; where this producer differs on purpose, the table says so and why.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import pytest

from ottla import Delivery, ErrorCode, Producer
from ottla.errors import AbortableTransactionError, FatalTransactionError, ProducerFencedError, TransactionError
from ottla.protocol import PRODUCE, Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.mock_cluster import DISCONNECT, MockCluster
from transactions_kit import WAIT, chance, new_id

_C = ErrorCode
AnyMessage: TypeAlias = Message[Any, Any]


class Effect(enum.Enum):
    """The outcome for a producer whose request was refused."""

    RETRIED = "not noticed"
    REFUSED = "init_transactions fails, and may be called again"
    ABORTABLE = "the transaction can only be aborted; the next one works"
    FATAL = "nothing more can be done with this producer"
    FENCED = "fatal, and reported as such"


RETRIABLE = [
    _C.COORDINATOR_LOAD_IN_PROGRESS,
    _C.CONCURRENT_TRANSACTIONS,
    _C.REQUEST_TIMED_OUT,
    _C.UNKNOWN_TOPIC_OR_PARTITION,
    _C.NOT_ENOUGH_REPLICAS,
    _C.KAFKA_STORAGE_ERROR,
]
MOVED = [_C.COORDINATOR_NOT_AVAILABLE, _C.NOT_COORDINATOR]
FENCED = [_C.INVALID_PRODUCER_EPOCH, _C.PRODUCER_FENCED]

OF_COORDINATOR = [INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN]
SAID_BY_OUTDATED = [_C.PRODUCER_FENCED, _C.INVALID_PRODUCER_ID_MAPPING, _C.INVALID_TXN_STATE]
"""A coordinator that was replaced, and does not know it yet, may say this; Java's producer believes it at once."""

TABLE: dict[AnyMessage, dict[Effect, list[ErrorCode]]] = {
    INIT_PRODUCER_ID: {
        Effect.RETRIED: RETRIABLE + MOVED,
        # Java calls the first two abortable: to abort, and to initialize again. Here it is only the latter.
        # The other two are fatal there, though a setting can be mended, and keep_prepared be left out.
        Effect.REFUSED: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.CLUSTER_AUTHORIZATION_FAILED,
            _C.INVALID_TRANSACTION_TIMEOUT,
            _C.UNSUPPORTED_VERSION,
        ],
        Effect.FATAL: [_C.INVALID_REQUEST, _C.UNKNOWN_SERVER_ERROR, _C.INVALID_TXN_STATE],
        Effect.FENCED: FENCED,
    },
    ADD_PARTITIONS_TO_TXN: {
        Effect.RETRIED: RETRIABLE + MOVED,
        Effect.ABORTABLE: [
            _C.TOPIC_AUTHORIZATION_FAILED,
            _C.OPERATION_NOT_ATTEMPTED,
            _C.TRANSACTION_ABORTABLE,
            _C.UNKNOWN_PRODUCER_ID,
            _C.UNKNOWN_SERVER_ERROR,
            _C.INVALID_REQUEST,
        ],
        Effect.FATAL: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_ID_MAPPING,
        ],
        Effect.FENCED: FENCED,
    },
    ADD_OFFSETS_TO_TXN: {
        Effect.RETRIED: RETRIABLE + MOVED,
        Effect.ABORTABLE: [_C.GROUP_AUTHORIZATION_FAILED, _C.TRANSACTION_ABORTABLE, _C.UNKNOWN_PRODUCER_ID],
        Effect.FATAL: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_ID_MAPPING,
            _C.UNKNOWN_SERVER_ERROR,
        ],
        Effect.FENCED: FENCED,
    },
    TXN_OFFSET_COMMIT: {
        Effect.RETRIED: RETRIABLE + MOVED,
        Effect.ABORTABLE: [
            _C.GROUP_AUTHORIZATION_FAILED,
            _C.FENCED_INSTANCE_ID,
            _C.TRANSACTION_ABORTABLE,
            _C.UNKNOWN_MEMBER_ID,
            _C.ILLEGAL_GENERATION,
            _C.STALE_MEMBER_EPOCH,  # fatal in Java before 4.4, as is the next one
            _C.GROUP_ID_NOT_FOUND,
        ],
        Effect.FATAL: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            _C.INVALID_TXN_STATE,
            _C.UNKNOWN_SERVER_ERROR,
        ],
        Effect.FENCED: FENCED,
    },
    END_TXN: {
        Effect.RETRIED: RETRIABLE + MOVED,
        Effect.ABORTABLE: [_C.TRANSACTION_ABORTABLE, _C.UNKNOWN_PRODUCER_ID],
        Effect.FATAL: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_ID_MAPPING,
            _C.UNKNOWN_SERVER_ERROR,
        ],
        Effect.FENCED: FENCED,
    },
    PRODUCE: {
        Effect.RETRIED: [_C.NOT_LEADER_OR_FOLLOWER, _C.NOT_ENOUGH_REPLICAS, _C.REQUEST_TIMED_OUT],
        Effect.ABORTABLE: [
            _C.INVALID_RECORD,
            _C.TOPIC_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_EPOCH,
            _C.TRANSACTION_ABORTABLE,
            _C.UNKNOWN_SERVER_ERROR,
        ],
        Effect.FATAL: [
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.CLUSTER_AUTHORIZATION_FAILED,
            _C.INVALID_PRODUCER_ID_MAPPING,
        ],
        Effect.FENCED: [_C.PRODUCER_FENCED],
    },
}


@attrs.frozen
class Case:
    """One line of the table."""

    request: AnyMessage
    code: ErrorCode
    effect: Effect

    def __str__(self) -> str:
        return f"{self.request.name} {self.code.name}"

    @property
    def pushed(self) -> list[ErrorCode]:
        """The responses of the mock: who has sent the first of two may not be the coordinator any more."""
        return [self.code] * (1 + (self.code in SAID_BY_OUTDATED and self.request in OF_COORDINATOR))


def cases(*requests: AnyMessage) -> list[Case]:
    """The lines of these requests."""
    return [Case(each, code, effect) for each in requests for effect, codes in TABLE[each].items() for code in codes]


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """Three brokers with a topic."""
    mock_cluster.create_topic("t", partitions=2)
    return mock_cluster


@contextmanager
def producing(cluster: MockCluster, **settings: Any) -> Iterator[Producer]:
    """A producer that tries again soon."""
    usual = {
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 10,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 10,
        "max.block.ms": int(WAIT * 1000),
        "transactional.id": new_id(),
    }
    with Producer({"bootstrap.servers": cluster.bootstrap_servers} | usual | settings) as producer:
        yield producer


def transact(producer: Producer) -> None:
    """Records and offsets in a transaction, and its commit; the records know how it went."""
    producer.begin_transaction()
    sent = [producer.send("t", b"v", partition=partition) for partition in range(2)]
    try:
        producer.send_offsets_to_transaction({("t", 0): 5}, "group")
        producer.commit_transaction()
    except AbortableTransactionError:
        producer.abort_transaction()
        _look_at(sent)
        raise
    except FatalTransactionError:
        _look_at(sent)
        raise
    for delivery in sent:
        delivery.result(WAIT)


def _look_at(sent: list[Delivery]) -> None:
    """An error that was not retrieved is raised again when the producer closes."""
    for delivery in sent:
        delivery.exception(WAIT)


def effect_on(producer: Producer) -> Effect:
    """Run a transaction, and one after it if it may be; what became of the first."""
    try:
        transact(producer)
    except AbortableTransactionError:
        transact(producer)
        return Effect.ABORTABLE
    except FatalTransactionError as error:
        with pytest.raises(FatalTransactionError):
            producer.begin_transaction()
        return Effect.FENCED if isinstance(error, ProducerFencedError) else Effect.FATAL
    transact(producer)
    return Effect.RETRIED


def effect_on_begin(producer: Producer) -> Effect:
    """Initialize, and once more if it may be."""
    try:
        producer.init_transactions()
    except FatalTransactionError as error:
        with pytest.raises(FatalTransactionError):
            producer.init_transactions()
        return Effect.FENCED if isinstance(error, ProducerFencedError) else Effect.FATAL
    except TransactionError:
        producer.init_transactions()
        transact(producer)
        return Effect.REFUSED
    transact(producer)
    return Effect.RETRIED


@pytest.mark.parametrize(
    "case", cases(ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE), ids=str
)
def test_an_error_in_a_transaction_has_the_consequence_of_java(cluster: MockCluster, case: Case) -> None:
    with producing(cluster) as producer:
        producer.init_transactions()
        cluster.push_errors(case.request.key, case.pushed)

        assert effect_on(producer) is case.effect


@pytest.mark.parametrize("case", cases(INIT_PRODUCER_ID), ids=str)
def test_an_error_of_the_initialization_has_the_consequence_of_java(cluster: MockCluster, case: Case) -> None:
    with producing(cluster) as producer:
        cluster.push_errors(case.request.key, case.pushed)

        assert effect_on_begin(producer) is case.effect


@pytest.mark.parametrize("code", SAID_BY_OUTDATED, ids=lambda code: code.name)
@pytest.mark.parametrize("request_", OF_COORDINATOR, ids=lambda request: request.name)
def test_an_outdated_coordinator_is_not_believed(cluster: MockCluster, request_: AnyMessage, code: ErrorCode) -> None:
    with producing(cluster) as producer:
        if request_ is not INIT_PRODUCER_ID:
            producer.init_transactions()
        cluster.push_errors(request_.key, [code])

        assert (effect_on_begin if request_ is INIT_PRODUCER_ID else effect_on)(producer) is Effect.RETRIED


def test_a_coordinator_error_without_an_address_is_retried(cluster: MockCluster) -> None:
    """The mock's refusals lack the host that even a refusal has: what they ask for cannot be read."""
    with producing(cluster) as producer:
        cluster.push_errors(FIND_COORDINATOR.key, [_C.COORDINATOR_NOT_AVAILABLE] * 3)
        assert effect_on_begin(producer) is Effect.RETRIED

        cluster.push_errors(FIND_COORDINATOR.key, [_C.COORDINATOR_NOT_AVAILABLE] * 3)
        transact(producer)


def test_coordinators_that_move_at_every_step_are_followed(cluster: MockCluster) -> None:
    random, name = chance("coordinators"), new_id()
    stop = threading.Event()

    def move() -> None:
        while not stop.wait(random.uniform(0, 0.02)):
            cluster.set_coordinator("transaction", name, random.choice(cluster.brokers))
            cluster.set_coordinator("group", "group", random.choice(cluster.brokers))

    mover = threading.Thread(target=move)
    with producing(cluster, **{"transactional.id": name}) as producer:
        cluster.start_tracking()
        mover.start()
        try:
            producer.init_transactions()
            for _ in range(200):
                transact(producer)
        finally:
            stop.set()
            mover.join()
    assert cluster.request_count(FIND_COORDINATOR.key) > 2


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize(
    "request_", [ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE], ids=lambda r: r.name
)
def test_a_connection_lost_before_a_response_is_retried(cluster: MockCluster, request_: AnyMessage, times: int) -> None:
    with producing(cluster) as producer:
        producer.init_transactions()
        cluster.push_errors(request_.key, [DISCONNECT] * times)

        assert effect_on(producer) is Effect.RETRIED


@pytest.mark.parametrize("request_", [FIND_COORDINATOR, INIT_PRODUCER_ID], ids=lambda request: request.name)
def test_a_connection_lost_during_initialization_is_retried(cluster: MockCluster, request_: AnyMessage) -> None:
    with producing(cluster) as producer:
        cluster.push_errors(request_.key, [DISCONNECT] * 3)

        assert effect_on_begin(producer) is Effect.RETRIED


def test_an_idempotent_producer_without_an_id_retries_the_same_errors(cluster: MockCluster) -> None:
    """InitProducerId goes to any broker then, and records wait for it."""
    with producing(cluster, **{"transactional.id": None}) as producer:
        cluster.push_errors(INIT_PRODUCER_ID.key, [DISCONNECT, *RETRIABLE, _C.NOT_COORDINATOR])

        assert producer.send("t", b"v", partition=0).result(WAIT).offset == 0
