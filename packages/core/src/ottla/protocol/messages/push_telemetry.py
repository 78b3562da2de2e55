"""PushTelemetry: this client's metrics for the cluster (KIP-714)."""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Struct, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class PushTelemetryRequest(Struct):
    """`metrics` is an OpenTelemetry MetricsData v1 message, compressed with the codec `compression_type`.

    `terminating` marks the last push, which may come before the end of the interval.
    """

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@attrs.define(kw_only=True, eq=False, repr=False)
class PushTelemetryResponse(Struct):
    """Error 117 UNKNOWN_SUBSCRIPTION_ID: request the subscription again."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


PUSH_TELEMETRY = Message(
    name="PushTelemetry",
    key=72,
    min_version=0,
    max_version=0,
    flexible_from=0,
    request_type=PushTelemetryRequest,
    response_type=PushTelemetryResponse,
)
