"""InitProducerId: a producer id and epoch, for idempotence (KIP-98) or for the owner of a transactional id.

With a transactional id the request fences its previous producer and ends an open transaction. Version 3 lets a producer
with an id bump its epoch and go on (KIP-360), 4 adds the error 90 PRODUCER_FENCED (KIP-588), 5 the error 120
TRANSACTION_ABORTABLE (KIP-890). Version 6 is for two-phase commit (KIP-939): Kafka 4.3 does not list it unless unstable
versions are switched on.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Bool, In, Int16, Int32, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class InitProducerIdRequest(Struct):
    """`transactional_id=None` is for idempotence only; then the timeout has no effect.

    `producer_id` and `producer_epoch` are the producer's current ones, or -1 for a new id.
    """

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(3)] = -1
    producer_epoch: Annotated[Int16, In(3)] = -1
    enable_2pc: Annotated[Bool, In(6)] = False
    keep_prepared_txn: Annotated[Bool, In(6)] = False


@attrs.define(kw_only=True, eq=False, repr=False)
class InitProducerIdResponse(Struct):
    """The `ongoing_txn_` fields name a prepared transaction that was kept, -1 when there is none."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, In(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, In(6)] = -1


INIT_PRODUCER_ID = Message(
    name="InitProducerId",
    key=22,
    min_version=0,
    max_version=6,
    flexible_from=2,
    request_type=InitProducerIdRequest,
    response_type=InitProducerIdResponse,
)
