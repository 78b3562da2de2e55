"""AddOffsetsToTxn: adds a group's offsets to a transaction, before TxnOffsetCommit commits them.

It is not needed with TxnOffsetCommit 5 and `transaction.version` 2, which do both in one (KIP-890).
"""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class AddOffsetsToTxnRequest(Struct):
    """Sent to the transaction coordinator, not to the group coordinator."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class AddOffsetsToTxnResponse(Struct):
    """The error, if the group's offsets could not be added."""

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
