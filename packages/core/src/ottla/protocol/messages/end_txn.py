"""EndTxn: commit or abort a transaction.

From version 5 on, for `transaction.version` 2, the response has the epoch for the next transaction (KIP-890). It has a
new producer id when the epochs are used up; sequences start at 0 again. After a lost response the same request can be
repeated: it returns 51 CONCURRENT_TRANSACTIONS for a while, then the same epoch.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Bool, Ignorable, In, Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class EndTxnRequest(Struct):
    """`committed=False` aborts."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@attrs.define(kw_only=True, eq=False, repr=False)
class EndTxnResponse(Struct):
    """The producer id and epoch for the next transaction; -1 if the version or an error leaves them unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, In(5), Ignorable()] = -1
    producer_epoch: Annotated[Int16, In(5), Ignorable()] = -1


END_TXN = Message(
    name="EndTxn",
    key=26,
    min_version=0,
    max_version=5,
    flexible_from=3,
    request_type=EndTxnRequest,
    response_type=EndTxnResponse,
)
