"""The requests of a transaction, from its first partition to its end; imported for transactional producers only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import END_TXN, EndTxnRequest
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinatorRequest
from ottla.protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.recordbatch.stamp import ProducerId
from ottla.transactions.error_actions import CoordinatorRequestKind
from ottla.transactions.offsets import OffsetsToSend, TopicPartition
from ottla.transactions.requests import CoordinatorRequest, Target

_LAST_FOR_CLIENTS: Final = 3
_LAST_WITH_ONE_KEY: Final = 3
_FIRST_WITH_MEMBERSHIP: Final = 3
_LAST_OFFSETS_OF_OLD: Final = 4
_LAST_END_OF_OLD: Final = 4


def find_coordinator(key: str, *, group: bool) -> CoordinatorRequest:
    """Find the coordinator of a transactional id, or of a group."""
    key_type = GROUP if group else TRANSACTION

    def content(version: int) -> FindCoordinatorRequest:
        if version <= _LAST_WITH_ONE_KEY:
            return FindCoordinatorRequest(key=key, key_type=key_type)
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

    return CoordinatorRequest(
        kind=CoordinatorRequestKind.FIND_GROUP if group else CoordinatorRequestKind.FIND_COORDINATOR,
        target=Target.ANY,
        message=FIND_COORDINATOR,
        content=content,
        floor=0 if group else 1,
        key=key,
    )


def add_partitions(
    transactional_id: str, owner: ProducerId, partitions: Sequence[TopicPartition]
) -> CoordinatorRequest:
    """Add partitions to the transaction, before anything is written to them."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=owner.id,
        v3_and_below_producer_epoch=owner.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in _by_topic(partitions)
        ],
    )
    return CoordinatorRequest(
        kind=CoordinatorRequestKind.ADD_PARTITIONS,
        target=Target.COORDINATOR,
        message=ADD_PARTITIONS_TO_TXN,
        content=lambda _version: request,
        ceiling=_LAST_FOR_CLIENTS,
        partitions=partitions,
    )


def add_offsets(transactional_id: str, owner: ProducerId, group_id: str) -> CoordinatorRequest:
    """Add a group's offsets to the transaction."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=owner.id, producer_epoch=owner.epoch, group_id=group_id
    )
    return CoordinatorRequest(
        kind=CoordinatorRequestKind.ADD_OFFSETS,
        target=Target.COORDINATOR,
        message=ADD_OFFSETS_TO_TXN,
        content=lambda _version: request,
        key=group_id,
    )


def commit_offsets(
    transactional_id: str,
    owner: ProducerId,
    sending: OffsetsToSend,
    unwritten: Iterable[TopicPartition],
    *,
    txn_v2: bool,
) -> CoordinatorRequest:
    """Write those offsets of a group that are *unwritten*; they take effect when the transaction is committed."""
    group = sending.group
    partitions = tuple(unwritten)
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=sending.offsets[topic, number].offset,
                    committed_leader_epoch=sending.offsets[topic, number].leader_epoch,
                    committed_metadata=sending.offsets[topic, number].metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(partitions)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=owner.id,
        producer_epoch=owner.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=topics,
    )
    membership = group.generation_id >= 0 or group.member_id or group.group_instance_id is not None
    return CoordinatorRequest(
        kind=CoordinatorRequestKind.COMMIT_OFFSETS,
        target=Target.GROUP,
        message=TXN_OFFSET_COMMIT,
        content=lambda _version: request,
        floor=_FIRST_WITH_MEMBERSHIP if membership else 0,
        ceiling=None if txn_v2 else _LAST_OFFSETS_OF_OLD,
        key=group.group_id,
        partitions=partitions,
    )


def end(transactional_id: str, owner: ProducerId, *, commit: bool, txn_v2: bool) -> CoordinatorRequest:
    """Commit the transaction, or abort it."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=owner.id, producer_epoch=owner.epoch, committed=commit
    )
    return CoordinatorRequest(
        kind=CoordinatorRequestKind.END,
        target=Target.COORDINATOR,
        message=END_TXN,
        content=lambda _version: request,
        ceiling=None if txn_v2 else _LAST_END_OF_OLD,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return list(by_topic.items())
