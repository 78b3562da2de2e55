"""The part of a transactional id's owner in a conversation with a broker."""

from __future__ import annotations

from typing import Final

import attrs
from conversations import Conversation
from handmade_batches import Batch
from two_clusters import TwoClusters, produced

from ottla.errors import ErrorCode
from ottla.protocol import PRODUCE
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import END_TXN, EndTxnRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


@attrs.frozen(kw_only=True)
class Versions:
    """Of the requests of a transaction. From Produce 12 on, writing adds a partition; from EndTxn 5 on, epochs end."""

    initialize: int = 5
    add: int = 3
    add_group: int = 4
    produce: int
    commit_offsets: int
    end: int


BEFORE_KIP_890: Final = Versions(produce=11, commit_offsets=4, end=4)
SINCE_KIP_890: Final = Versions(produce=12, commit_offsets=5, end=5)


class Owner:
    """A transactional id in a conversation, with the producer id and epoch of its last InitProducerId or EndTxn."""

    def __init__(
        self, talk: Conversation, clusters: TwoClusters, number: int = 1, *, versions: Versions | None = None
    ) -> None:
        self.talk, self.clusters = talk, clusters
        self.id = f"{clusters.plain}-{number}"
        self.versions = versions or (SINCE_KIP_890 if clusters.level == 2 else BEFORE_KIP_890)
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[int, int, int], int] = {}
        self.waits = True
        """Whether requests are sent again while the coordinator is busy, and `end` waits for markers."""

    def initialize(
        self,
        title: str,
        current: tuple[int, int] = (-1, -1),
        *,
        version: int | None = None,
        timeout: int = 60_000,
        until_not_busy: bool = True,
        transactional_id: str | None = None,
    ) -> None:
        """Send InitProducerId, and keep what it returns."""
        request = InitProducerIdRequest(
            transactional_id=self.id if transactional_id is None else transactional_id,
            transaction_timeout_ms=timeout,
            producer_id=current[0],
            producer_epoch=current[1],
        )
        found = self.talk.ask(
            title,
            INIT_PRODUCER_ID,
            version or self.versions.initialize,
            request,
            until_not_busy=until_not_busy and self.waits,
        )
        if found is not None and not found.error_code:
            self.producer_id, self.epoch = found.producer_id, found.producer_epoch
        elif self.waits and found is not None and found.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self.talk.peer.await_end(self.id)

    @property
    def now(self) -> tuple[int, int]:
        """Its producer id and epoch."""
        return self.producer_id, self.epoch

    def add(
        self, title: str, *topics: str, who: tuple[int, int] | None = None, partition: int = 0, name: str | None = None
    ) -> None:
        """Send AddPartitionsToTxn."""
        producer_id, epoch = who or self.now
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id if name is None else name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=each, partitions=[partition]) for each in topics],
        )
        self.talk.ask(title, ADD_PARTITIONS_TO_TXN, self.versions.add, request, until_not_busy=self.waits)

    def send(
        self,
        title: str,
        *,
        who: tuple[int, int] | None = None,
        partition: int = 0,
        sequence: int | None = None,
        transactional: bool = True,
        version: int | None = None,
        name: str | None = None,
        without_id: bool = False,
    ) -> None:
        """Send a batch with the next sequence number."""
        producer_id, epoch = who or self.now
        place = producer_id, epoch if self.versions.end >= SINCE_KIP_890.end else 0, partition
        if sequence is None:
            sequence = self.sequences.get(place, 0)
            self.sequences[place] = sequence + 1
        batch = Batch(producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=transactional)
        transactional_id = None if without_id else self.id if name is None else name
        request = produced(self.clusters.plain, batch, partition=partition, transactional_id=transactional_id)
        self.talk.ask(title, PRODUCE, version or self.versions.produce, request, until_not_busy=self.waits)

    def end(
        self,
        title: str,
        *,
        commit: bool = True,
        who: tuple[int, int] | None = None,
        name: str | None = None,
        until_not_busy: bool = True,
        version: int | None = None,
    ) -> None:
        """Send EndTxn, and keep the epoch that it returns."""
        producer_id, epoch = who or self.now
        request = EndTxnRequest(
            transactional_id=self.id if name is None else name,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        waits = until_not_busy and self.waits
        found = self.talk.ask(title, END_TXN, version or self.versions.end, request, until_not_busy=waits)
        if found is None or found.error_code:
            return
        if self.waits:
            self.talk.peer.await_end(self.id)
        if found.producer_epoch >= 0:
            self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    def add_group(self, title: str, *, who: tuple[int, int] | None = None, group: str = "group") -> None:
        """Send AddOffsetsToTxn."""
        producer_id, epoch = who or self.now
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        self.talk.ask(title, ADD_OFFSETS_TO_TXN, self.versions.add_group, request, until_not_busy=self.waits)

    def commit_offsets(
        self,
        title: str,
        *,
        who: tuple[int, int] | None = None,
        group: str = "group",
        topic: str | None = None,
        partition: int = 0,
        version: int | None = None,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
    ) -> None:
        """Send TxnOffsetCommit."""
        producer_id, epoch = who or self.now
        part = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            member_id=member,
            generation_id=generation,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=topic or self.clusters.plain, partitions=[part])],
        )
        self.talk.ask(
            title, TXN_OFFSET_COMMIT, version or self.versions.commit_offsets, request, until_not_busy=self.waits
        )

    def begin(self, title: str = "begin", *, partition: int = 0) -> None:
        """Write a batch in a transaction."""
        if self.versions.produce < SINCE_KIP_890.produce:
            self.add(f"{title}: add", self.clusters.plain, partition=partition)
        self.send(f"{title}: send", partition=partition)
