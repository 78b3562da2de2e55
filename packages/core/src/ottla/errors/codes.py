"""Error codes of brokers: name, number, meaning, and whether a retry can help.

`ottla.sender.produce_error_actions` and `ottla.transactions.transaction_error_actions` have the producer's action for
each code; they use the flags here, with exceptions.
"""

from __future__ import annotations

import enum
from typing import Self


class ErrorCode(enum.IntEnum):
    """Kafka's error codes as of 4.4. `retriable`: the same request may succeed later.

    `stale_metadata`: the known metadata is out of date, and new metadata should be requested.
    """

    meaning: str
    retriable: bool
    stale_metadata: bool

    def __new__(cls, value: int, meaning: str, retriable: bool = False, stale_metadata: bool = False) -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        code.retriable = retriable
        code.stale_metadata = stale_metadata
        return code

    UNKNOWN_SERVER_ERROR = -1, "An unexpected error in the broker; its log has the details."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset is outside of what the partition holds."
    CORRUPT_MESSAGE = (
        2,
        "The batch's checksum is wrong, its size invalid, or it lacks a key that a compacted topic requires.",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = (
        3,
        "The broker does not host this topic or partition; it may not exist, or this user may not describe it.",
        True,
        True,
    )
    INVALID_FETCH_SIZE = 4, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", True, True
    NOT_LEADER_OR_FOLLOWER = 6, "The broker no longer leads this partition.", True, True
    REQUEST_TIMED_OUT = 7, "The request's time ran out, usually while the broker waited for replicas.", True
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available.", True, True
    MESSAGE_TOO_LARGE = 10, "The batch is larger than the limit of the broker or topic (max.message.bytes)."
    STALE_CONTROLLER_EPOCH = 11, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of the offset is too large."
    NETWORK_EXCEPTION = 13, "The connection was lost before a response came.", True, True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "The broker is not the coordinator.", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic's name is not allowed, or the topic is internal."
    RECORD_LIST_TOO_LARGE = 18, "The batch is larger than the broker's segment size."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than min.insync.replicas requires.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The batch was written, but to fewer in-sync replicas than min.insync.replicas.",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "The broker does not accept this value of acks."
    ILLEGAL_GENERATION = 22, "The request's generation is not that of the consumer group."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The group's members do not agree on a protocol."
    INVALID_GROUP_ID = 24, "The group's id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session time-out is outside of the allowed range."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offset's data is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, "This user lacks a right for the topic; to send records, it needs Write."
    GROUP_AUTHORIZATION_FAILED = 30, "This user may not use the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "This user may not do this on the cluster."
    INVALID_TIMESTAMP = 32, "The record's timestamp is outside of the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the authentication."
    UNSUPPORTED_VERSION = 35, "The broker does not know this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "The topic exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is below 1."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas is invalid."
    INVALID_CONFIG = 40, "The configuration is invalid."
    NOT_CONTROLLER = 41, "The broker is not the controller.", True
    INVALID_REQUEST = 42, "The request breaks the protocol, or its bytes were changed on the way."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The topic's message format does not support the request."
    POLICY_VIOLATION = 44, "A policy of the cluster does not allow the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The batch's sequence does not follow the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker holds this batch already."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is old."
    INVALID_TXN_STATE = 48, "The transaction's state does not allow the request."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        "The time-out (transaction.timeout.ms) is above the brokers' transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = 51, "The last transaction of this id is still being ended.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "The coordinator that sent the request has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "This user may not use the transactional id."
    SECURITY_DISABLED = 54, "The cluster has no security features enabled."
    OPERATION_NOT_ATTEMPTED = 55, "The broker did not try this, because something else in the request failed."
    KAFKA_STORAGE_ERROR = 56, "The broker's disk failed.", True, True
    LOG_DIR_NOT_FOUND = 57, "The log folder does not exist."
    SASL_AUTHENTICATION_FAILED = 58, "The broker refused the credentials."
    UNKNOWN_PRODUCER_ID = 59, "The broker holds no state for this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "A reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to another user."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens cannot be used on this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "This user may not use the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal's type is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session does not exist.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session's epoch is wrong.", True
    LISTENER_NOT_FOUND = 72, "The partition's leader has no listener of this name.", True, True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, "Our leader epoch is older than the broker's.", True, True
    UNKNOWN_LEADER_EPOCH = 75, "Our leader epoch is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "The broker does not know this codec, or this request's version cannot carry it.",
    )
    STALE_BROKER_EPOCH = 77, "The broker's epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, "The leader's high watermark has not caught up.", True
    MEMBER_ID_REQUIRED = 79, "The member must join the group with an id."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", True, True
    GROUP_MAX_SIZE_REACHED = 81, "The group is full."
    FENCED_INSTANCE_ID = 82, "Another member has this instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No eligible leader is available.", True, True
    ELECTION_NOT_NEEDED = 84, "The election is not needed.", True, True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic."
    INVALID_RECORD = (
        87,
        "The broker's checks refuse a record, for example one without a key for a compacted topic.",
    )
    UNSTABLE_OFFSET_COMMIT = 88, "Some offsets are not stable yet.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up.", True
    PRODUCER_FENCED = 90, "A newer producer has this transactional id."
    RESOURCE_NOT_FOUND = 91, "The resource that the request names does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not fulfil the requirements."
    INCONSISTENT_VOTER_SET = 94, "The sender or the receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The update's version is invalid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "A forwarded request's principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position is outside of the snapshot."
    UNKNOWN_TOPIC_ID = (
        100,
        "The broker does not know this topic id; the topic may have been deleted and created again.",
        True,
        True,
    )
    DUPLICATE_BROKER_REGISTRATION = 101, "The broker's id is in use."
    BROKER_ID_NOT_REGISTERED = 102, "The broker's id is not registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id is not the one in the log.", True, True
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id is not the one expected."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id is not known."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic names and ids.", True
    INELIGIBLE_REPLICA = 107, "The replica is not eligible."
    NEW_LEADER_ELECTED = 108, "Another leader was elected meanwhile."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset lies in tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch is old."
    UNRELEASED_INSTANCE_ID = 111, "The instance id is still in use."
    UNSUPPORTED_ASSIGNOR = 112, "The assignor is not supported."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is stale."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "The controller's id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not known."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is too large."
    INVALID_REGISTRATION = 119, "The broker's registration is invalid."
    TRANSACTION_ABORTABLE = 120, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, "The record's state is invalid."
    SHARE_SESSION_NOT_FOUND = 122, "The share session does not exist.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session's epoch is wrong.", True
    FENCED_STATE_EPOCH = 124, "The share coordinator refuses the state's epoch."
    INVALID_VOTER_KEY = 125, "The voter's key is not the receiving replica's."
    DUPLICATE_VOTER = 126, "The voter is one already."
    VOTER_NOT_FOUND = 127, "The voter is not known."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = 129, "The broker asks the client to start again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The streams topology's epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The streams topology's epoch is old."
    SHARE_SESSION_LIMIT_REACHED = 133, "No more share sessions are allowed.", True
    GROUP_DELETION_FAILED = 134, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "The description of the streams topology could not be updated."
    CONTROLLER_ID_NOT_REGISTERED = 136, "No controller with this id is registered."


_BY_NUMBER = {code.value: code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The code for a number from the wire; an unknown number becomes UNKNOWN_SERVER_ERROR."""
    return _BY_NUMBER.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)
