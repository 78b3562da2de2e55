"""The requests of idempotence and transactions as values: what to ask, and whom; nothing is sent here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import END_TXN, EndTxnRequest
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.recordbatch.stamp import ProducerId
from ottla.transaction_manager.offsets import OffsetsToSend, TopicPartition
from ottla.transaction_manager.rulings import ErrandKind

_FIRST_THAT_BUMPS: Final = 3
_LAST_STABLE_INIT: Final = 5
_TWO_PHASE: Final = 6
_LAST_FOR_CLIENTS: Final = 3
_LAST_WITH_ONE_KEY: Final = 3
_FIRST_WITH_MEMBERSHIP: Final = 3
_LAST_OFFSETS_OF_OLD: Final = 4
_LAST_END_OF_OLD: Final = 4
LAST_PRODUCE_OF_OLD: Final = 11
"""The highest Produce version under `transaction.version` 0 and 1: later ones add partitions by themselves."""


class Target(enum.Enum):
    """Who is asked."""

    ANY = "any broker"
    COORDINATOR = "the transaction's coordinator"
    GROUP = "the group's coordinator"


@attrs.frozen(kw_only=True)
class Errand:
    """One request: `content` is its struct for a version from `floor` to `ceiling`. `key` is the group's id, if any."""

    kind: ErrandKind
    target: Target
    message: Message[Any, Any]
    content: Callable[[int], Any]
    floor: int = 0
    ceiling: int | None = None
    key: str = ""
    partitions: Sequence[TopicPartition] = ()


def initialize(
    *,
    transactional_id: str | None,
    timeout_ms: int,
    current: ProducerId | None,
    two_phase: bool = False,
    keep_prepared: bool = False,
) -> Errand:
    """A producer id; with *current* the same one in another epoch."""

    def content(version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1 if current is None else current.id,
            producer_epoch=-1 if current is None else current.epoch,
            enable_2pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )

    newest = two_phase or keep_prepared
    return Errand(
        kind=ErrandKind.INITIALIZE,
        target=Target.ANY if transactional_id is None else Target.COORDINATOR,
        message=INIT_PRODUCER_ID,
        content=content,
        floor=_TWO_PHASE if newest else 0 if current is None else _FIRST_THAT_BUMPS,
        ceiling=_TWO_PHASE if newest else _LAST_STABLE_INIT,
    )


def find_coordinator(key: str, *, group: bool) -> Errand:
    """The broker that looks after a transactional id, or a group."""
    key_type = GROUP if group else TRANSACTION

    def content(version: int) -> FindCoordinatorRequest:
        if version <= _LAST_WITH_ONE_KEY:
            return FindCoordinatorRequest(key=key, key_type=key_type)
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

    return Errand(
        kind=ErrandKind.FIND_GROUP if group else ErrandKind.FIND_COORDINATOR,
        target=Target.ANY,
        message=FIND_COORDINATOR,
        content=content,
        floor=0 if group else 1,
        key=key,
    )


def add_partitions(transactional_id: str, owner: ProducerId, partitions: Sequence[TopicPartition]) -> Errand:
    """Make partitions members of the transaction, before anything is written to them."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=owner.id,
        v3_and_below_producer_epoch=owner.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in _by_topic(partitions)
        ],
    )
    return Errand(
        kind=ErrandKind.ADD_PARTITIONS,
        target=Target.COORDINATOR,
        message=ADD_PARTITIONS_TO_TXN,
        content=lambda _version: request,
        ceiling=_LAST_FOR_CLIENTS,
        partitions=partitions,
    )


def add_offsets(transactional_id: str, owner: ProducerId, group_id: str) -> Errand:
    """Make a group's offsets part of the transaction."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=owner.id, producer_epoch=owner.epoch, group_id=group_id
    )
    return Errand(
        kind=ErrandKind.ADD_OFFSETS,
        target=Target.COORDINATOR,
        message=ADD_OFFSETS_TO_TXN,
        content=lambda _version: request,
        key=group_id,
    )


def commit_offsets(
    transactional_id: str,
    owner: ProducerId,
    sending: OffsetsToSend,
    left: Iterable[TopicPartition],
    *,
    newest: bool,
) -> Errand:
    """Write those of a group's positions that are *left*; they count when the transaction is committed."""
    group = sending.group
    partitions = tuple(left)
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
    return Errand(
        kind=ErrandKind.COMMIT_OFFSETS,
        target=Target.GROUP,
        message=TXN_OFFSET_COMMIT,
        content=lambda _version: request,
        floor=_FIRST_WITH_MEMBERSHIP if membership else 0,
        ceiling=None if newest else _LAST_OFFSETS_OF_OLD,
        key=group.group_id,
        partitions=partitions,
    )


def end(transactional_id: str, owner: ProducerId, *, commit: bool, newest: bool) -> Errand:
    """Commit the transaction, or abort it."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=owner.id, producer_epoch=owner.epoch, committed=commit
    )
    return Errand(
        kind=ErrandKind.END,
        target=Target.COORDINATOR,
        message=END_TXN,
        content=lambda _version: request,
        ceiling=None if newest else _LAST_END_OF_OLD,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return list(by_topic.items())
