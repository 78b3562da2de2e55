"""Error codes of Produce responses, by whether the broker may nevertheless have appended the batch.

Kafka checks a batch, appends it, and only then waits for the followers (`DelayedProduce`). Errors during that wait have
the same codes as errors of the checks: a leader that steps down meanwhile returns NOT_LEADER_OR_FOLLOWER for a batch
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
from ottla.results.value_methods import ValueMethods


class AppendTime(enum.Enum):
    """The time at which brokers return a code, relative to the append of the batch."""

    BEFORE = "before"
    EITHER = "before or after"
    AFTER = "after"
    UNKNOWN = "unknown"


@attrs.frozen(eq=False, repr=False)
class ErrorOrigin(ValueMethods):
    """The time at which brokers return a code, and the places in Kafka's source that do."""

    append: AppendTime
    places: str


_UNKNOWN_ORIGIN: Final = ErrorOrigin(AppendTime.UNKNOWN, "not a known response to Produce")

_KNOWN: Final[Mapping[ErrorCode, ErrorOrigin]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorOrigin(
        AppendTime.EITHER, "`ReplicaManager.appendToLocalLog` and `KafkaApis.handle`, for whatever they catch"
    ),
    ErrorCode.NONE: ErrorOrigin(AppendTime.AFTER, "`DelayedProduce.tryComplete`, `ReplicaManager.appendRecords`"),
    ErrorCode.CORRUPT_MESSAGE: ErrorOrigin(
        AppendTime.EITHER,
        "before: `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`; after: `Partition.maybeIncrementLeaderHW`, "
        "which may read a damaged segment",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorOrigin(
        AppendTime.EITHER,
        "before: `KafkaApis.handleProduceRequest`; after: `DelayedProduce.tryComplete` by "
        "`ReplicaManager.getPartitionOrError`",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorOrigin(
        AppendTime.EITHER,
        "before: `Partition.appendRecordsToLeader`; after: `DelayedProduce.tryComplete` by "
        "`Partition.checkEnoughReplicasReachOffset`",
    ),
    ErrorCode.REQUEST_TIMED_OUT: ErrorOrigin(AppendTime.AFTER, "`DelayedProduce`, whose time has passed"),
    ErrorCode.MESSAGE_TOO_LARGE: ErrorOrigin(
        AppendTime.BEFORE, "`UnifiedLog.analyzeAndValidateRecords`, `UnifiedLog.append` once it is rewritten"
    ),
    ErrorCode.NETWORK_EXCEPTION: ErrorOrigin(AppendTime.EITHER, "a lost connection; no broker returns it"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: ErrorOrigin(AppendTime.BEFORE, "`ReplicaManager.appendToLocalLog`"),
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorOrigin(AppendTime.BEFORE, "`UnifiedLog.append`"),
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorOrigin(
        AppendTime.BEFORE, "`Partition.appendRecordsToLeader`, `ReplicaManager.handleProduceAppend`"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorOrigin(
        AppendTime.AFTER, "`DelayedProduce.tryComplete` by `Partition.checkEnoughReplicasReachOffset`"
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: ErrorOrigin(AppendTime.BEFORE, "`ReplicaManager.appendRecords`"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorOrigin(AppendTime.BEFORE, "`KafkaApis.handleProduceRequest`"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorOrigin(
        AppendTime.BEFORE, "`KafkaApis.handleProduceRequest` of older brokers"
    ),
    ErrorCode.INVALID_TIMESTAMP: ErrorOrigin(AppendTime.BEFORE, "`LogValidator.validateTimestamp`"),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: ErrorOrigin(AppendTime.BEFORE, "`LogValidator.validateBatch`"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorOrigin(
        AppendTime.BEFORE, "`ProducerAppendInfo.checkSequence`, `UnifiedLog.maybeStartTransactionVerification`"
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: ErrorOrigin(
        AppendTime.AFTER, "`ProducerAppendInfo.checkSequence` of 0.11: an earlier try was appended"
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorOrigin(
        AppendTime.BEFORE, "`ProducerAppendInfo.checkProducerEpoch`, `AddPartitionsToTxnManager`"
    ),
    ErrorCode.INVALID_TXN_STATE: ErrorOrigin(
        AppendTime.BEFORE,
        "`ReplicaManager.handleProduceAppend`, `UnifiedLog.analyzeAndValidateProducerState`, "
        "`ProducerAppendInfo.appendDataBatch`",
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorOrigin(
        AppendTime.BEFORE, "`ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`"
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorOrigin(AppendTime.BEFORE, "`ReplicaManager.handleProduceAppend`"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorOrigin(AppendTime.BEFORE, "`KafkaApis.handleProduceRequest`"),
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorOrigin(
        AppendTime.EITHER,
        "before: `ReplicaManager.getPartitionOrException`; after: `UnifiedLog.append`, which may fail half-way, and "
        "`DelayedProduce.tryComplete` by `ReplicaManager.getPartitionOrError`",
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorOrigin(
        AppendTime.BEFORE, "`ProducerAppendInfo.checkSequence` of older brokers"
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ErrorOrigin(
        AppendTime.BEFORE, "`ProduceRequest.validateRecords`, `LogValidator.validateMessagesAndAssignOffsets`"
    ),
    ErrorCode.INVALID_RECORD: ErrorOrigin(AppendTime.BEFORE, "`ProduceRequest.validateRecords`, `LogValidator`"),
    ErrorCode.PRODUCER_FENCED: ErrorOrigin(AppendTime.BEFORE, "`ProducerAppendInfo.checkProducerEpoch`, until 2.6"),
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorOrigin(
        AppendTime.BEFORE, "`KafkaApis.handleProduceRequest`, `ReplicaManager.getPartitionOrException`"
    ),
    ErrorCode.TRANSACTION_ABORTABLE: ErrorOrigin(
        AppendTime.BEFORE, "`ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`"
    ),
}

ERROR_ORIGINS: Final[Mapping[ErrorCode, ErrorOrigin]] = MappingProxyType(
    {code: _KNOWN.get(code, _UNKNOWN_ORIGIN) for code in ErrorCode}
)

REFUSED_BEFORE_APPEND: Final = frozenset(
    code for code, origin in ERROR_ORIGINS.items() if origin.append is AppendTime.BEFORE
)
"""The codes after which nothing of the batch was written in this attempt, for certain."""
