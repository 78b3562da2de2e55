"""AddOffsetsToTxn: that a transaction is about to commit a group's offsets, before TxnOffsetCommit does.

Not needed where TxnOffsetCommit 5 and `transaction.version` 2 do both in one (KIP-890).
"""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Int16, Int32, Int64, String


@attrs.define(kw_only=True)
class AddOffsetsToTxnRequest:
    """Goes to the coordinator of the transaction, not to that of the group."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@attrs.define(kw_only=True)
class AddOffsetsToTxnResponse:
    """Whether the group's offsets are part of the transaction now."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


ADD_OFFSETS_TO_TXN = Message(
    name="AddOffsetsToTxn",
    key=25,
    min_version=0,
    max_version=4,
    flexible_from=3,
    request_type=AddOffsetsToTxnRequest,
    response_type=AddOffsetsToTxnResponse,
)
