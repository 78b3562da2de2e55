"""GetTelemetrySubscriptions: the metrics of this client that the cluster wants, and the interval (KIP-714).

Brokers without a telemetry plugin leave it out of ApiVersions, but answer it with an empty list of metrics.
"""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import ZERO_UUID, Bool, Int8, Int16, Int32, String, Struct, Uuid


@attrs.define(kw_only=True, eq=False, repr=False)
class GetTelemetrySubscriptionsRequest(Struct):
    """The id is zero in a client's first request; the response then assigns one."""

    client_instance_id: Uuid = ZERO_UUID


@attrs.define(kw_only=True, eq=False, repr=False)
class GetTelemetrySubscriptionsResponse(Struct):
    """`requested_metrics` are prefixes of names: an empty list means no metric, one empty prefix means every metric.

    `accepted_compression_types` are codec ids, the preferred one first.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = attrs.Factory(list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String] = attrs.Factory(list)


GET_TELEMETRY_SUBSCRIPTIONS = Message(
    name="GetTelemetrySubscriptions",
    key=71,
    min_version=0,
    max_version=0,
    flexible_from=0,
    request_type=GetTelemetrySubscriptionsRequest,
    response_type=GetTelemetrySubscriptionsResponse,
)
