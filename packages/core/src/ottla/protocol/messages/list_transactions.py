"""ListTransactions: the transactions of one coordinator (KIP-664); ask every broker to get all.

Version 1 can filter by duration (KIP-994), version 2 by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import In, Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class ListTransactionsRequest(Struct):
    """Empty filters, -1 and None match everything.

    States have their names, such as `Ongoing` or `PrepareCommit`; the duration is in milliseconds. The pattern is a
    regular expression of RE2 that has to match the whole id.
    """

    state_filters: list[String] = attrs.Factory(list)
    producer_id_filters: list[Int64] = attrs.Factory(list)
    duration_filter: Annotated[Int64, In(1)] = -1
    transactional_id_pattern: Annotated[String | None, In(2)] = None


@attrs.define(kw_only=True, eq=False, repr=False)
class TransactionState(Struct):
    """One transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class ListTransactionsResponse(Struct):
    """`unknown_state_filters` are the names in the filters that the coordinator does not know."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = attrs.Factory(list)
    transaction_states: list[TransactionState] = attrs.Factory(list)


LIST_TRANSACTIONS = Message(
    name="ListTransactions",
    key=66,
    min_version=0,
    max_version=2,
    flexible_from=0,
    request_type=ListTransactionsRequest,
    response_type=ListTransactionsResponse,
)
