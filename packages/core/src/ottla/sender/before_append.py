"""Error codes of Produce responses, by whether the broker may nevertheless have appended the batch.

Kafka checks a batch, appends it, and only then waits for the followers (`DelayedProduce`). Errors during that wait have
the same codes as errors of the checks: a leader that steps down meanwhile answers NOT_LEADER_OR_FOLLOWER for a batch
that its successor has. So a code counts as a refusal only if every place in Kafka's source that returns it comes before
the append. After all other codes the batch may be written; that includes codes without a known place, and unknown
numbers.

The places are those of Kafka 4.0 to 4.3, plus those that only older brokers have.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from ottla.errors import ErrorCode


class Append(enum.Enum):
    """The time of a code's response, relative to the append of the batch."""

    BEFORE = "before"
    EITHER = "before or after"
    AFTER = "after"
    UNKNOWN = "unknown"


@attrs.frozen
class Answered:
    """The time of a code's response, and the places in Kafka's source that return it."""

    append: Append
    places: str


_NOWHERE: Final = Answered(Append.UNKNOWN, "no answer to Produce that is known")

_KNOWN: Final[Mapping[ErrorCode, Answered]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: Answered(
        Append.EITHER, "`ReplicaManager.appendToLocalLog` and `KafkaApis.handle`, for whatever they catch"
    ),
    ErrorCode.NONE: Answered(Append.AFTER, "`DelayedProduce.tryComplete`, `ReplicaManager.appendRecords`"),
    ErrorCode.CORRUPT_MESSAGE: Answered(
        Append.EITHER,
        "before: `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`; after: `Partition.maybeIncrementLeaderHW`, "
        "which may read a damaged segment",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Answered(
        Append.EITHER,
        "before: `KafkaApis.handleProduceRequest`; after: `DelayedProduce.tryComplete` by "
        "`ReplicaManager.getPartitionOrError`",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Answered(
        Append.EITHER,
        "before: `Partition.appendRecordsToLeader`; after: `DelayedProduce.tryComplete` by "
        "`Partition.checkEnoughReplicasReachOffset`",
    ),
    ErrorCode.REQUEST_TIMED_OUT: Answered(Append.AFTER, "`DelayedProduce`, whose time has passed"),
    ErrorCode.MESSAGE_TOO_LARGE: Answered(
        Append.BEFORE, "`UnifiedLog.analyzeAndValidateRecords`, `UnifiedLog.append` once it is rewritten"
    ),
    ErrorCode.NETWORK_EXCEPTION: Answered(Append.EITHER, "a lost connection; no broker answers it"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: Answered(Append.BEFORE, "`ReplicaManager.appendToLocalLog`"),
    ErrorCode.RECORD_LIST_TOO_LARGE: Answered(Append.BEFORE, "`UnifiedLog.append`"),
    ErrorCode.NOT_ENOUGH_REPLICAS: Answered(
        Append.BEFORE, "`Partition.appendRecordsToLeader`, `ReplicaManager.handleProduceAppend`"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Answered(
        Append.AFTER, "`DelayedProduce.tryComplete` by `Partition.checkEnoughReplicasReachOffset`"
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: Answered(Append.BEFORE, "`ReplicaManager.appendRecords`"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Answered(Append.BEFORE, "`KafkaApis.handleProduceRequest`"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Answered(
        Append.BEFORE, "`KafkaApis.handleProduceRequest` of older brokers"
    ),
    ErrorCode.INVALID_TIMESTAMP: Answered(Append.BEFORE, "`LogValidator.validateTimestamp`"),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Answered(Append.BEFORE, "`LogValidator.validateBatch`"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Answered(
        Append.BEFORE, "`ProducerAppendInfo.checkSequence`, `UnifiedLog.maybeStartTransactionVerification`"
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Answered(
        Append.AFTER, "`ProducerAppendInfo.checkSequence` of 0.11: an earlier try was appended"
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: Answered(
        Append.BEFORE, "`ProducerAppendInfo.checkProducerEpoch`, `AddPartitionsToTxnManager`"
    ),
    ErrorCode.INVALID_TXN_STATE: Answered(
        Append.BEFORE,
        "`ReplicaManager.handleProduceAppend`, `UnifiedLog.analyzeAndValidateProducerState`, "
        "`ProducerAppendInfo.appendDataBatch`",
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Answered(
        Append.BEFORE, "`ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`"
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: Answered(Append.BEFORE, "`ReplicaManager.handleProduceAppend`"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Answered(Append.BEFORE, "`KafkaApis.handleProduceRequest`"),
    ErrorCode.KAFKA_STORAGE_ERROR: Answered(
        Append.EITHER,
        "before: `ReplicaManager.getPartitionOrException`; after: `UnifiedLog.append`, which may fail half-way, and "
        "`DelayedProduce.tryComplete` by `ReplicaManager.getPartitionOrError`",
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: Answered(Append.BEFORE, "`ProducerAppendInfo.checkSequence` of older brokers"),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Answered(
        Append.BEFORE, "`ProduceRequest.validateRecords`, `LogValidator.validateMessagesAndAssignOffsets`"
    ),
    ErrorCode.INVALID_RECORD: Answered(Append.BEFORE, "`ProduceRequest.validateRecords`, `LogValidator`"),
    ErrorCode.PRODUCER_FENCED: Answered(Append.BEFORE, "`ProducerAppendInfo.checkProducerEpoch`, until 2.6"),
    ErrorCode.UNKNOWN_TOPIC_ID: Answered(
        Append.BEFORE, "`KafkaApis.handleProduceRequest`, `ReplicaManager.getPartitionOrException`"
    ),
    ErrorCode.TRANSACTION_ABORTABLE: Answered(
        Append.BEFORE, "`ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`"
    ),
}

ANSWERED: Final[Mapping[ErrorCode, Answered]] = MappingProxyType(
    {code: _KNOWN.get(code, _NOWHERE) for code in ErrorCode}
)

REFUSED_BEFORE_APPEND: Final = frozenset(
    code for code, answered in ANSWERED.items() if answered.append is Append.BEFORE
)
"""The codes after which nothing of the batch was written in this attempt, for certain."""
