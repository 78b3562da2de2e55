"""Requests of idempotence and transactions, answered from a simulated coordinator's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol import Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import END_TXN, EndTxnResponse
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla_testkit.simulation.transactions import TransactionCoordinator

COORDINATING: tuple[Message[Any, Any], ...] = (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
)

FIRST_THAT_BUMPS = 5
FIRST_THAT_ADDS_GROUPS = 5
LAST_WITH_ONE_KEY = 3


def coordinate(
    transactions: TransactionCoordinator,
    message: Message[Any, Any],
    request: Any,
    *,
    version: int,
    node: int,
    coordinates: int,
    code: ErrorCode,
) -> Any:
    """Return the response of broker *node*, where broker *coordinates* is the coordinator.

    With a *code* other than NONE the response only has that code, and nothing is done.
    """
    if message is FIND_COORDINATOR:
        return _find(coordinates, request, version, code)
    if message is INIT_PRODUCER_ID:
        return _initialize(transactions, request, code, here=node == coordinates)
    if code is ErrorCode.NONE and node != coordinates:
        code = ErrorCode.NOT_COORDINATOR
    if message is ADD_PARTITIONS_TO_TXN:
        return _add_partitions(transactions, request, code)
    if message is ADD_OFFSETS_TO_TXN:
        if code is ErrorCode.NONE:
            code = transactions.add(request.transactional_id, request.producer_id, request.producer_epoch, None)
        return AddOffsetsToTxnResponse(error_code=code)
    if message is TXN_OFFSET_COMMIT:
        return _commit_offsets(transactions, request, version, code)
    return _end(transactions, request, version, code)


def transactional_ids(request: Any) -> Sequence[str]:
    """Return the transactional ids of a request."""
    names = ("transactional_id", "v3_and_below_transactional_id", "key")
    found = [getattr(request, name, None) or "" for name in names]
    return [*found, *getattr(request, "coordinator_keys", ())]


def _find(coordinates: int, request: Any, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    found = -1 if code else coordinates
    host, port = f"broker-{found}", 9092
    if version <= LAST_WITH_ONE_KEY:
        return FindCoordinatorResponse(error_code=code, node_id=found, host=host, port=port)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=found, host=host, port=port, error_code=code)
            for key in request.coordinator_keys
        ]
    )


def _initialize(
    transactions: TransactionCoordinator, request: Any, code: ErrorCode, *, here: bool
) -> InitProducerIdResponse:
    if code is ErrorCode.NONE and request.transactional_id is None:
        return InitProducerIdResponse(producer_id=transactions.new_id(), producer_epoch=0)
    if code is ErrorCode.NONE and not here:
        code = ErrorCode.NOT_COORDINATOR
    if code is not ErrorCode.NONE:
        return InitProducerIdResponse(error_code=code)
    current = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    code, producer_id, epoch = transactions.initialize(request.transactional_id, current)
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def _add_partitions(transactions: TransactionCoordinator, request: Any, code: ErrorCode) -> AddPartitionsToTxnResponse:
    results = []
    for topic in request.v3_and_below_topics:
        partitions = []
        for partition in topic.partitions:
            answered = code or transactions.add(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                (topic.name, partition),
            )
            partitions.append(
                AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=answered)
            )
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _commit_offsets(
    transactions: TransactionCoordinator, request: Any, version: int, code: ErrorCode
) -> TxnOffsetCommitResponse:
    who = (request.transactional_id, request.producer_id, request.producer_epoch)
    if code is ErrorCode.NONE and version >= FIRST_THAT_ADDS_GROUPS:
        code = transactions.add(*who, None)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            key = (request.group_id, topic.name, partition.partition_index)
            answered = code or transactions.add_offset(*who, key, partition.committed_offset)
            partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=answered)
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


def _end(transactions: TransactionCoordinator, request: Any, version: int, code: ErrorCode) -> EndTxnResponse:
    if code is not ErrorCode.NONE:
        return EndTxnResponse(error_code=code)
    code, producer_id, epoch = transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        newest=version >= FIRST_THAT_BUMPS,
    )
    return EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)
