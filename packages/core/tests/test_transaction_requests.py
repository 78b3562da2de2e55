"""The requests of transactions: their content, their versions, and what their responses mean."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.network.backoff import CONCURRENT_TRANSACTIONS_BACKOFF, Backoff
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.coordinator_request import CoordinatorRequest, InitProducerId
from ottla.transactions.group_metadata import ConsumerGroupMetadata
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.request_retries import RequestRetries
from ottla.transactions.response_actions import (
    CoordinatorFound,
    GroupAdded,
    OffsetsWritten,
    PartitionsAdded,
    ProducerIdAssigned,
    RequestFailed,
    ResponseAction,
    TransactionEnded,
)
from ottla.transactions.transaction_error_actions import CoordinatorRequestKind, TransactionErrorAction
from ottla.transactions.transaction_requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    TxnOffsetCommit,
)

OWNER = ProducerIdAndEpoch(id=5, epoch=3)
NEXT = ProducerIdAndEpoch(id=5, epoch=4)
PARTITIONS = [("in", 0), ("in", 1)]
OFFSETS = OffsetsToSend.checked({("in", 0): 7, ("in", 1): 8}, "g")

INIT = InitProducerId(transactional_id="x", timeout_ms=1)
FIND = FindCoordinator(key="x", group=False)
ADD_PARTITIONS = AddPartitionsToTxn("x", OWNER, PARTITIONS)
ADD_OFFSETS = AddOffsetsToTxn("x", OWNER, "g")
COMMIT_OFFSETS = TxnOffsetCommit(
    transactional_id="x", producer_id_and_epoch=OWNER, sending=OFFSETS, partitions=PARTITIONS, txn_v2=True
)
END = EndTxn(transactional_id="x", producer_id_and_epoch=OWNER, commit=True, txn_v2=True)


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in enumerate(codes)
    ]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(name="in", results_by_partition=results)]
    )


def written(*codes: ErrorCode) -> TxnOffsetCommitResponse:
    results = [
        TxnOffsetCommitResponsePartition(partition_index=number, error_code=code) for number, code in enumerate(codes)
    ]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="in", partitions=results)])


@pytest.mark.parametrize(
    ("request_", "response", "action"),
    [
        (
            INIT,
            InitProducerIdResponse(producer_id=5, producer_epoch=3),
            ProducerIdAssigned(producer_id_and_epoch=OWNER, transaction_open=False),
        ),
        (
            INIT,
            InitProducerIdResponse(producer_id=5, producer_epoch=3, ongoing_txn_producer_id=5),
            ProducerIdAssigned(producer_id_and_epoch=OWNER, transaction_open=True),
        ),
        (
            INIT,
            InitProducerIdResponse(producer_id=5, producer_epoch=3, ongoing_txn_producer_id=0),  # 0 is an id, too
            ProducerIdAssigned(producer_id_and_epoch=OWNER, transaction_open=True),
        ),
        (FIND, FindCoordinatorResponse(node_id=2), CoordinatorFound(2)),
        (
            FIND,
            FindCoordinatorResponse(coordinators=[Coordinator(key="y", node_id=1), Coordinator(key="x", node_id=2)]),
            CoordinatorFound(2),
        ),
        (ADD_PARTITIONS, added(ErrorCode.NONE, ErrorCode.NONE), PartitionsAdded(PARTITIONS)),
        (ADD_OFFSETS, AddOffsetsToTxnResponse(), GroupAdded()),
        (COMMIT_OFFSETS, written(ErrorCode.NONE, ErrorCode.NONE), OffsetsWritten(PARTITIONS, None)),
        (END, EndTxnResponse(producer_id=5, producer_epoch=4), TransactionEnded(NEXT)),
        (END, EndTxnResponse(producer_id=-1, producer_epoch=-1), TransactionEnded(None)),
    ],
)
def test_a_response_without_an_error_says_what_was_done(
    request_: CoordinatorRequest, response: Any, action: ResponseAction
) -> None:
    assert request_.handle(response) == action


@pytest.mark.parametrize(
    ("request_", "response", "action", "code"),
    [
        (
            INIT,
            InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED),
            TransactionErrorAction.FENCED,
            ErrorCode.PRODUCER_FENCED,
        ),
        (INIT, InitProducerIdResponse(producer_id=-1, producer_epoch=0), TransactionErrorAction.RETRY, None),
        (INIT, InitProducerIdResponse(producer_id=1, producer_epoch=-1), TransactionErrorAction.RETRY, None),
        (FIND, FindCoordinatorResponse(node_id=-1), TransactionErrorAction.RETRY, None),
        (
            FIND,
            FindCoordinatorResponse(node_id=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
            TransactionErrorAction.RETRY,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (
            ADD_PARTITIONS,
            added(ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH),
            TransactionErrorAction.FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ),
        (ADD_PARTITIONS, added(ErrorCode.NONE), TransactionErrorAction.ABORTABLE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            ADD_OFFSETS,
            AddOffsetsToTxnResponse(error_code=ErrorCode.NOT_COORDINATOR),
            TransactionErrorAction.REFIND,
            ErrorCode.NOT_COORDINATOR,
        ),
        (
            END,
            EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE),
            TransactionErrorAction.ABORTABLE,
            ErrorCode.INVALID_TXN_STATE,
        ),
    ],
)
def test_a_response_with_an_error_says_what_to_do(
    request_: CoordinatorRequest, response: Any, action: TransactionErrorAction, code: ErrorCode | None
) -> None:
    failed = request_.handle(response)

    assert isinstance(failed, RequestFailed)
    assert failed.action is action
    assert getattr(failed.error, "code", None) is code


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_may_be_unknown_ends_only_if_brokers_lack_it(commit: bool) -> None:
    end = attrs.evolve(END, commit=commit, txn_v2=False, maybe_open=True)

    ended = end.handle(EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE))
    assert isinstance(ended, TransactionEnded)
    assert ended.refusal is not None
    assert ended.refusal.code is ErrorCode.INVALID_TXN_STATE
    for code in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ):
        assert isinstance(end.handle(EndTxnResponse(error_code=code)), RequestFailed)


def test_offsets_that_were_written_are_not_sent_again() -> None:
    action = COMMIT_OFFSETS.handle(written(ErrorCode.NONE, ErrorCode.NOT_COORDINATOR))

    assert action.partitions == [("in", 0)]
    assert action.failure is not None
    assert action.failure.action is TransactionErrorAction.REFIND


@pytest.mark.parametrize("txn_v2", [True, False])
def test_only_version_2_uses_requests_that_add_partitions_implicitly(txn_v2: bool) -> None:
    end = EndTxn(transactional_id="x", producer_id_and_epoch=OWNER, commit=True, txn_v2=txn_v2)
    commit = TxnOffsetCommit(
        transactional_id="x", producer_id_and_epoch=OWNER, sending=OFFSETS, partitions=PARTITIONS, txn_v2=txn_v2
    )

    assert (end.ceiling, commit.ceiling) == ((None, None) if txn_v2 else (4, 4))


def test_requests_carry_the_producer_id_and_epoch() -> None:
    for request in (
        ADD_OFFSETS,
        COMMIT_OFFSETS,
        END,
        InitProducerId(transactional_id="x", timeout_ms=1, current=OWNER),
    ):
        struct = request.build(3)
        assert (struct.producer_id, struct.producer_epoch, struct.transactional_id) == (5, 3, "x")
    add_partitions = ADD_PARTITIONS.build(3)
    assert (add_partitions.v3_and_below_producer_id, add_partitions.v3_and_below_producer_epoch) == (5, 3)


@pytest.mark.parametrize(("group", "floor"), [(True, 0), (False, 1)])
def test_the_first_version_of_find_coordinator_knows_groups_only(group: bool, floor: int) -> None:
    assert FindCoordinator(key="x", group=group).floor == floor


@pytest.mark.parametrize(
    ("group", "floor"),
    [
        (ConsumerGroupMetadata("g"), 0),
        (ConsumerGroupMetadata("g", generation_id=0), 3),
        (ConsumerGroupMetadata("g", member_id="m"), 3),
        (ConsumerGroupMetadata("g", group_instance_id="i"), 3),
    ],
)
def test_offsets_of_a_member_need_a_version_that_fences_members(group: ConsumerGroupMetadata, floor: int) -> None:
    offsets = OffsetsToSend.checked({("in", 0): 7}, group)
    request = TxnOffsetCommit(
        transactional_id="x", producer_id_and_epoch=OWNER, sending=offsets, partitions=[("in", 0)], txn_v2=True
    )

    assert request.floor == floor


# When a request is repeated

FIND_KIND, INIT_KIND, END_KIND = (
    CoordinatorRequestKind.FIND_COORDINATOR,
    CoordinatorRequestKind.INITIALIZE,
    CoordinatorRequestKind.END,
)
LOST = BrokerError(ErrorCode.NOT_COORDINATOR)


def pauses(retries: RequestRetries, *kinds: CoordinatorRequestKind) -> list[float]:
    found = []
    for kind in kinds:
        retries.fail(kind, LOST, now=100.0)
        found.append(round(retries.next_at(kind) - 100.0, 6))
    return found


@pytest.fixture
def retries() -> RequestRetries:
    return RequestRetries(Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5))


def test_pauses_double_up_to_the_longest(retries: RequestRetries) -> None:
    assert pauses(retries, *[INIT_KIND] * 6) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_finding_a_coordinator_does_not_shorten_pauses_of_other_requests(retries: RequestRetries) -> None:
    assert pauses(retries, FIND_KIND, FIND_KIND) == [0.1, 0.2]
    retries.succeed(FIND_KIND)
    assert pauses(retries, INIT_KIND, INIT_KIND) == [0.1, 0.2]
    retries.succeed(FIND_KIND)

    assert pauses(retries, FIND_KIND, INIT_KIND) == [0.1, 0.4]


def test_a_response_of_the_coordinator_ends_all_pauses(retries: RequestRetries) -> None:
    pauses(retries, FIND_KIND, FIND_KIND, INIT_KIND, END_KIND)
    retries.succeed(INIT_KIND)

    assert pauses(retries, FIND_KIND, INIT_KIND, END_KIND) == [0.1, 0.1, 0.1]


def test_the_end_of_the_transaction_before_is_awaited_with_short_pauses(retries: RequestRetries) -> None:
    for _ in range(4):
        retries.fail(END_KIND, BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS), now=0.0)

    assert retries.next_at(END_KIND) == CONCURRENT_TRANSACTIONS_BACKOFF


def test_a_pause_is_for_one_kind_of_request(retries: RequestRetries) -> None:
    offsets, group = CoordinatorRequestKind.COMMIT_OFFSETS, CoordinatorRequestKind.FIND_GROUP
    pauses(retries, offsets, group)

    assert retries.next_at(END_KIND) == float("-inf")
    assert retries.next_at(offsets) == retries.next_at(group) == 100.1
    pauses(retries, FIND_KIND)
    assert retries.next_at(END_KIND) == 100.1
