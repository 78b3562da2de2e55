"""Requests of idempotence and transactions, answered from a simulated coordinator's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ottla.protocol.messages.find_coordinator import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorResponse,
)
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla_testkit.simulation.groups import Membership, SimulatedGroup, check_membership
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
FIRST_OFFSETS_WITH_ABORTABLE = 4
LAST_WITH_ONE_KEY = 3


def coordinate(
    transactions: TransactionCoordinator,
    message: Message[Any, Any],
    request: Any,
    *,
    version: int,
    node: int,
    coordinates: int,
    address: tuple[str, int],
    of_groups: tuple[int, tuple[str, int]] | None = None,
    partitions: Mapping[str, int] | None,
    groups: Mapping[str, SimulatedGroup] | None,
    code: ErrorCode,
) -> Any:
    """Return the response of broker *node*, where broker *coordinates* is the coordinator, at an *address*.

    *of_groups* is the broker that coordinates groups, and its address, if it is another one.

    *partitions* maps each topic to its number of partitions. If it is None, every topic and partition exists. Without
    *groups*, each generation and member of a group is accepted.

    With a *code* other than NONE the response only has that code, and nothing is done.
    """
    if message is FIND_COORDINATOR:
        found = of_groups if of_groups is not None and request.key_type == GROUP else (coordinates, address)
        return _find(*found, request, version, code)
    if message is INIT_PRODUCER_ID:
        return _initialize(transactions, request, code, here=node == coordinates)
    asked = of_groups[0] if of_groups is not None and message is TXN_OFFSET_COMMIT else coordinates
    if code is ErrorCode.NONE and node != asked:
        code = ErrorCode.NOT_COORDINATOR
    if message is ADD_PARTITIONS_TO_TXN:
        return _add_partitions(transactions, request, partitions, code)
    if message is ADD_OFFSETS_TO_TXN:
        if code is ErrorCode.NONE:
            who = (request.transactional_id, request.producer_id, request.producer_epoch)
            code = transactions.add(*who, group=request.group_id)
        return AddOffsetsToTxnResponse(error_code=code)
    if message is TXN_OFFSET_COMMIT:
        return _commit_offsets(transactions, request, version, partitions, groups, code)
    return _end(transactions, request, version, code)


def transactional_ids(request: Any) -> Sequence[str]:
    """Return the transactional ids of a request."""
    names = ("transactional_id", "v3_and_below_transactional_id", "key")
    found = [getattr(request, name, None) or "" for name in names]
    return [*found, *getattr(request, "coordinator_keys", ())]


def has_succeeded(response: Any) -> bool:
    """Return whether a response has no error code in it."""
    if isinstance(response, AddPartitionsToTxnResponse):
        results = [part for topic in response.results_by_topic_v3_and_below for part in topic.results_by_partition]
        return not any(each.partition_error_code for each in results)
    return not getattr(response, "error_code", ErrorCode.NONE)


def _find(
    coordinates: int, address: tuple[str, int], request: Any, version: int, code: ErrorCode
) -> FindCoordinatorResponse:
    keys = [request.key] if version <= LAST_WITH_ONE_KEY else request.coordinator_keys
    found = [_coordinator(key, request.key_type, coordinates, address, code) for key in keys]
    if version > LAST_WITH_ONE_KEY:
        return FindCoordinatorResponse(coordinators=found)
    [one] = found
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(key: str, kind: int, coordinates: int, address: tuple[str, int], code: ErrorCode) -> Coordinator:
    """The coordinator of a key, or an error."""
    if code is ErrorCode.NONE and kind not in (GROUP, TRANSACTION):
        code = ErrorCode.INVALID_REQUEST
    if code is not ErrorCode.NONE:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.name)
    host, port = address
    return Coordinator(key=key, node_id=coordinates, host=host, port=port)


def _initialize(
    transactions: TransactionCoordinator, request: Any, code: ErrorCode, *, here: bool
) -> InitProducerIdResponse:
    if code is ErrorCode.NONE and request.transactional_id is None:
        return InitProducerIdResponse(producer_id=transactions.new_id(), producer_epoch=0)
    if code is ErrorCode.NONE and not here:
        code = ErrorCode.NOT_COORDINATOR
    if code is not ErrorCode.NONE:
        return _without_id(code)
    if (request.producer_id < 0) is not (request.producer_epoch < 0):
        return _without_id(ErrorCode.INVALID_REQUEST)
    current = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    timeout_ms = None if request.enable_2pc else request.transaction_timeout_ms  # KIP-939: 2PC has no time-out
    code, producer_id, epoch = transactions.initialize(request.transactional_id, current, timeout_ms)
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def _without_id(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _add_partitions(
    transactions: TransactionCoordinator, request: Any, known: Mapping[str, int] | None, code: ErrorCode
) -> AddPartitionsToTxnResponse:
    who = (
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    asked = [(topic.name, partition) for topic in request.v3_and_below_topics for partition in topic.partitions]
    unknown = [place for place in asked if not _exists(known, *place)]
    if code is ErrorCode.NONE and unknown:  # then none is added
        code = ErrorCode.OPERATION_NOT_ATTEMPTED
    for place in asked:
        code = code or transactions.add(*who, place)

    def result(place: tuple[str, int]) -> AddPartitionsToTxnPartitionResult:
        answered = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in unknown else code
        return AddPartitionsToTxnPartitionResult(partition_index=place[1], partition_error_code=answered)

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[result((topic.name, number)) for number in reversed(topic.partitions)],
            )
            for topic in reversed(request.v3_and_below_topics)  # a broker keeps no order
        ]
    )


def _commit_offsets(
    transactions: TransactionCoordinator,
    request: Any,
    version: int,
    known: Mapping[str, int] | None,
    groups: Mapping[str, SimulatedGroup] | None,
    code: ErrorCode,
) -> TxnOffsetCommitResponse:
    who = (request.transactional_id, request.producer_id, request.producer_epoch)
    if code is ErrorCode.NONE and not request.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    if code is ErrorCode.NONE and version >= FIRST_THAT_ADDS_GROUPS:
        code = transactions.add(*who, group=request.group_id)
    named = Membership(
        generation_id=request.generation_id, member_id=request.member_id, group_instance_id=request.group_instance_id
    )
    membership = ErrorCode.NONE if groups is None else check_membership(groups.get(request.group_id), named)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            key = (request.group_id, topic.name, partition.partition_index)
            exists = _exists(known, topic.name, partition.partition_index)
            stored = code or transactions.add_offset(*who, key, partition.committed_offset, membership=membership)
            answered = _of_offsets(stored, version)
            partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=answered if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


def _of_offsets(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code that a group's coordinator returns for one of the transaction's coordinator."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_OFFSETS_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _exists(known: Mapping[str, int] | None, topic: str, partition: int) -> bool:
    return known is None or 0 <= partition < known.get(topic, 0)


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
