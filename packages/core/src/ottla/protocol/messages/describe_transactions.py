"""DescribeTransactions: the state of transactions, from their coordinator (KIP-664)."""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeTransactionsRequest(Struct):
    """The transactional ids to describe. The response to an empty list is empty."""

    transactional_ids: list[String] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class TopicData(Struct):
    """Partitions of one topic; while a transaction ends, those whose marker is not written yet."""

    topic: String = ""
    partitions: list[Int32] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class TransactionState(Struct):
    """One transaction. The start is in milliseconds since 1970, -1 when none is open."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeTransactionsResponse(Struct):
    """The states by transaction."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = attrs.Factory(list)


DESCRIBE_TRANSACTIONS = Message(
    name="DescribeTransactions",
    key=65,
    min_version=0,
    max_version=0,
    flexible_from=0,
    request_type=DescribeTransactionsRequest,
    response_type=DescribeTransactionsResponse,
)
