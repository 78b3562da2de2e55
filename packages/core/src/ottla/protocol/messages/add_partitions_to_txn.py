"""AddPartitionsToTxn: the partitions that a transaction is about to write to.

Versions 0 to 3 are for clients and take one transaction. From 4 on the request is a batch between brokers, which may
also only verify that the partitions are part of the transaction (KIP-890). A client does not need it with Produce 12
and `transaction.version` 2, which add partitions implicitly.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Bool, Ignorable, In, Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[Int32] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnTransaction(Struct):
    """One transaction of a broker's batch; `verify_only` checks and adds nothing."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnRequest(Struct):
    """`transactions` from version 4 on, the other fields before that."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], In(4)] = attrs.Factory(list)
    v3_and_below_transactional_id: Annotated[String, In(0, 3)] = ""
    v3_and_below_producer_id: Annotated[Int64, In(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, In(0, 3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], In(0, 3)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnPartitionResult(Struct):
    """One partition's outcome. If any of them has an error, no partition is added; the others have error 55."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnTopicResult(Struct):
    """The outcomes of one topic's partitions."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnResult(Struct):
    """The outcomes of one transaction of the batch."""

    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class AddPartitionsToTxnResponse(Struct):
    """`results_by_topic_v3_and_below` up to version 3, `results_by_transaction` from 4 on."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(4), Ignorable()] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], In(4)] = attrs.Factory(list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], In(0, 3)] = attrs.Factory(list)


ADD_PARTITIONS_TO_TXN = Message(
    name="AddPartitionsToTxn",
    key=24,
    min_version=0,
    max_version=5,
    flexible_from=3,
    request_type=AddPartitionsToTxnRequest,
    response_type=AddPartitionsToTxnResponse,
)
