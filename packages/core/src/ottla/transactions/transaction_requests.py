"""The requests of a transaction, from its first partition to its end; imported for transactional producers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, ProtocolError, error_code
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
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.acl_hints import needed
from ottla.transactions.coordinator_request import CoordinatorRequest, Target
from ottla.transactions.offsets import OffsetsToSend, TopicPartition
from ottla.transactions.response_actions import (
    CoordinatorFound,
    GroupAdded,
    OffsetsWritten,
    PartitionsAdded,
    RequestFailed,
    TransactionEnded,
)
from ottla.transactions.transaction_error_actions import CoordinatorRequestKind, TransactionErrorAction, deciding_code

_LAST_FOR_CLIENTS: Final = 3
_LAST_WITH_ONE_KEY: Final = 3
_FIRST_WITH_KEY_TYPE: Final = 1
_FIRST_WITH_MEMBERSHIP: Final = 3
_LAST_TXN_OFFSET_COMMIT_OF_V1: Final = 4
_LAST_END_TXN_OF_V1: Final = 4


@attrs.frozen(kw_only=True)
class FindCoordinator(CoordinatorRequest):
    """Find the coordinator of a transactional id, or of a group."""

    key: str
    group: bool
    doubted: int | None = None

    message = FIND_COORDINATOR
    target = Target.ANY

    @property
    def kind(self) -> CoordinatorRequestKind:
        """For a group other error codes are fatal than for a transactional id."""
        return CoordinatorRequestKind.FIND_GROUP if self.group else CoordinatorRequestKind.FIND_COORDINATOR

    @property
    def floor(self) -> int:
        """Version 0 knows groups only."""
        return 0 if self.group else _FIRST_WITH_KEY_TYPE

    def build(self, version: int) -> FindCoordinatorRequest:
        """Return the struct for a version."""
        key_type = GROUP if self.group else TRANSACTION
        if version <= _LAST_WITH_ONE_KEY:
            return FindCoordinatorRequest(key=self.key, key_type=key_type)
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.key])

    def handle(self, response: Any) -> CoordinatorFound | RequestFailed:
        """Return the coordinator, or the failure."""
        found = coordinator_in(response, self.key)
        code = error_code(found.error_code)
        failure = self.failure(code)
        if failure is not None and self.group and (right := needed(code, group=self.key)):
            failure = RequestFailed(failure.action, BrokerError(code, f"{code.meaning}{right}"))
        if failure is None and (error := invalid_node(found)) is not None:
            failure = RequestFailed(TransactionErrorAction.RETRY, error)
        return failure or CoordinatorFound(found.node_id)


@attrs.frozen
class AddPartitionsToTxn(CoordinatorRequest):
    """Add partitions to the transaction, before anything is written to them."""

    transactional_id: str
    producer_id_and_epoch: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]

    kind = CoordinatorRequestKind.ADD_PARTITIONS
    message = ADD_PARTITIONS_TO_TXN
    target = Target.COORDINATOR
    ceiling = _LAST_FOR_CLIENTS

    def build(self, version: int) -> AddPartitionsToTxnRequest:
        """Return the struct for a version."""
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id_and_epoch.id,
            v3_and_below_producer_epoch=self.producer_id_and_epoch.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in _by_topic(self.partitions)
            ],
        )

    def handle(self, response: Any) -> PartitionsAdded | RequestFailed:
        """Return that all partitions were added, or the failure: none counts as added then."""
        results = {
            (topic.name, each.partition_index): error_code(each.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        codes = _codes(self.partitions, results)
        # OPERATION_NOT_ATTEMPTED only follows from the error of another partition.
        causes = [code for code in codes if code is not ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
        return self.failure(deciding_code(self.kind, causes)) or PartitionsAdded(self.partitions)


@attrs.frozen
class AddOffsetsToTxn(CoordinatorRequest):
    """Add a group's offsets to the transaction."""

    transactional_id: str
    producer_id_and_epoch: ProducerIdAndEpoch
    key: str

    kind = CoordinatorRequestKind.ADD_OFFSETS
    message = ADD_OFFSETS_TO_TXN
    target = Target.COORDINATOR

    def build(self, version: int) -> AddOffsetsToTxnRequest:
        """Return the struct for a version."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id_and_epoch.id,
            producer_epoch=self.producer_id_and_epoch.epoch,
            group_id=self.key,
        )

    def handle(self, response: Any) -> GroupAdded | RequestFailed:
        """Return that the group was added, or the failure."""
        return self.failure(error_code(response.error_code)) or GroupAdded()


@attrs.frozen(kw_only=True)
class TxnOffsetCommit(CoordinatorRequest):
    """Write the offsets of *partitions*; they take effect when the transaction is committed."""

    transactional_id: str
    producer_id_and_epoch: ProducerIdAndEpoch
    sending: OffsetsToSend
    partitions: Sequence[TopicPartition]
    txn_v2: bool

    kind = CoordinatorRequestKind.COMMIT_OFFSETS
    message = TXN_OFFSET_COMMIT
    target = Target.GROUP

    @property
    def key(self) -> str:
        """The group id."""
        return self.sending.group.group_id

    @property
    def floor(self) -> int:
        """The first version that contains the consumer's membership, if there is one."""
        group = self.sending.group
        membership = group.generation_id >= 0 or group.member_id or group.group_instance_id is not None
        return _FIRST_WITH_MEMBERSHIP if membership else 0

    @property
    def ceiling(self) -> int | None:
        """Later versions add the group to the transaction, as only KIP-890 allows."""
        return None if self.txn_v2 else _LAST_TXN_OFFSET_COMMIT_OF_V1

    def build(self, version: int) -> TxnOffsetCommitRequest:
        """Return the struct for a version."""
        group, offsets = self.sending.group, self.sending.offsets
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.producer_id_and_epoch.id,
            producer_epoch=self.producer_id_and_epoch.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[topic, number].offset,
                            committed_leader_epoch=offsets[topic, number].leader_epoch,
                            committed_metadata=offsets[topic, number].metadata,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in _by_topic(self.partitions)
            ],
        )

    def handle(self, response: Any) -> OffsetsWritten:
        """Return the partitions that were written, and the failure of others."""
        results = {
            (topic.name, each.partition_index): error_code(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        codes = _codes(self.partitions, results)
        written = [partition for partition, code in zip(self.partitions, codes, strict=True) if code is ErrorCode.NONE]
        deciding = deciding_code(self.kind, codes)
        failure = self.failure(deciding)
        if self.txn_v2 and deciding is ErrorCode.INVALID_PRODUCER_EPOCH:
            # With KIP-890 the coordinator's own abort does not fence the producer. The abort shows if another one does.
            failure = RequestFailed(TransactionErrorAction.ABORTABLE, BrokerError(deciding))
        if failure is not None:
            refused = self.partitions[codes.index(deciding)]
            failure = RequestFailed(failure.action, BrokerError(deciding, self._detail(deciding, *refused)))
        return OffsetsWritten(written, failure)

    def _detail(self, code: ErrorCode, topic: str, partition: int) -> str:
        """What an error code is about: the response only has the code."""
        offset = f"the offset of topic {topic!r}, partition {partition}, for group {self.key!r}"
        match code:
            case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return f"this user may not read topic {topic!r}, and therefore not commit {offset}"
            case ErrorCode.OFFSET_METADATA_TOO_LARGE | ErrorCode.INVALID_COMMIT_OFFSET_SIZE:
                return f"{offset} has more metadata than the broker's offset.metadata.max.bytes"
            case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"{code.meaning} It was for {offset}"
            case _:
                return f"{code.meaning}{needed(code, group=self.key) or f' It was for group {self.key!r}'}"


_ABORTED_BY_COORDINATOR: Final = (
    "the coordinator has aborted the transaction: it was open for longer than transaction.timeout.ms, or another "
    "program or an administrator aborted it"
)


@attrs.frozen(kw_only=True)
class EndTxn(CoordinatorRequest):
    """Commit the transaction, or abort it.

    *maybe_open*: it is not known whether brokers have the transaction, because a response was lost.
    """

    transactional_id: str
    producer_id_and_epoch: ProducerIdAndEpoch
    commit: bool
    txn_v2: bool
    maybe_open: bool = False

    kind = CoordinatorRequestKind.END
    message = END_TXN
    target = Target.COORDINATOR

    @property
    def ceiling(self) -> int | None:
        """Later versions assign the next epoch, as only KIP-890 allows."""
        return None if self.txn_v2 else _LAST_END_TXN_OF_V1

    def build(self, version: int) -> EndTxnRequest:
        """Return the struct for a version."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id_and_epoch.id,
            producer_epoch=self.producer_id_and_epoch.epoch,
            committed=self.commit,
        )

    def handle(self, response: Any) -> TransactionEnded | RequestFailed:
        """The end of the transaction, or the failure of the request."""
        code = error_code(response.error_code)
        if self.maybe_open and code is ErrorCode.INVALID_TXN_STATE:
            return TransactionEnded(None, refusal=BrokerError(code))  # brokers do not have it
        if not self.commit and code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # It has forgotten the id, as of a cluster that was set up again. If another producer has taken the
            # transactional id instead, the request for a new epoch, which follows, is refused.
            return TransactionEnded(None, refusal=BrokerError(code))
        if self.commit and self.txn_v2 and code is ErrorCode.INVALID_TXN_STATE:
            # With KIP-890 the coordinator's own abort does not fence the producer, which may abort and go on.
            return RequestFailed(TransactionErrorAction.ABORTABLE, BrokerError(code, _ABORTED_BY_COORDINATOR))
        failure = self.failure(code)
        if failure is not None:
            return failure
        if response.producer_id < 0:
            return TransactionEnded(None)
        return TransactionEnded(ProducerIdAndEpoch(id=response.producer_id, epoch=response.producer_epoch))


def coordinator_in(response: Any, key: str) -> Any:
    """The part of a FindCoordinator response for *key*; from version 4 a response has several keys."""
    if not response.coordinators:
        return response
    return next((each for each in response.coordinators if each.key == key), response.coordinators[0])


def invalid_node(coordinator: Any) -> ProtocolError | None:
    """The error if a response without an error code names an impossible broker; None if the broker is possible.

    Negative ids are those of our bootstrap servers, and -1 is Kafka's "no node".
    """
    if coordinator.node_id >= 0:
        return None
    return ProtocolError(f"a response to FindCoordinator names broker {coordinator.node_id}, which no broker can be")


def _codes(partitions: Iterable[TopicPartition], results: Mapping[TopicPartition, ErrorCode]) -> Sequence[ErrorCode]:
    """The code of each requested partition; one that the response leaves out gets an unknown error."""
    return [results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in partitions]


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return list(by_topic.items())
