"""Client telemetry of simulated brokers (KIP-714): what they want of clients' metrics, and what they got."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import Message
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PUSH_TELEMETRY, PushTelemetryRequest, PushTelemetryResponse
from ottla.protocol.notation import ZERO_UUID

TELEMETRY: Sequence[Message[Any, Any]] = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2


@attrs.define(kw_only=True)
class SimulatedTelemetry:
    """The subscription of all clients, which a test may change at any time, and the pushes so far.

    Like Kafka's brokers, they refuse a push for a subscription that has changed, or one that is too large. They do not
    check when it comes. `codes` are error codes for the next requests, by their name.
    """

    metrics: list[str] = attrs.field(factory=lambda: ["*"])
    interval_ms: int = 60_000
    delta: bool = False
    compression_types: list[int] = attrs.field(factory=lambda: [ZSTD, LZ4, GZIP, SNAPPY])
    max_bytes: int = 1_048_576
    assigns_ids: bool = True
    codes: dict[str, deque[ErrorCode]] = attrs.field(factory=dict)
    subscribed: list[bytes] = attrs.field(factory=list)
    """The client instance ids of the requests for a subscription: the first of a client has zeros."""
    pushes: list[PushTelemetryRequest] = attrs.field(factory=list)

    @property
    def subscription_id(self) -> int:
        """The id of the current subscription, which changes with it."""
        return crc32(repr((self.metrics, self.interval_ms, self.delta)).encode()) >> 1

    def answer(self, message: Message[Any, Any], request: Any) -> object:
        """Return the content of the response to a request."""
        codes = self.codes.get(message.name)
        code = codes.popleft() if codes else ErrorCode.NONE
        if message is GET_TELEMETRY_SUBSCRIPTIONS:
            return self._subscribe(request, code)
        return self._take(request, code)

    def _subscribe(
        self, request: GetTelemetrySubscriptionsRequest, code: ErrorCode
    ) -> GetTelemetrySubscriptionsResponse:
        self.subscribed.append(request.client_instance_id)
        if code is not ErrorCode.NONE:
            return GetTelemetrySubscriptionsResponse(error_code=code)
        own = request.client_instance_id
        if own == ZERO_UUID and self.assigns_ids:
            own = len(self.subscribed).to_bytes(16, "big")
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=own,
            subscription_id=self.subscription_id,
            accepted_compression_types=list(self.compression_types),
            push_interval_ms=self.interval_ms,
            telemetry_max_bytes=self.max_bytes,
            delta_temporality=self.delta,
            requested_metrics=list(self.metrics),
        )

    def _take(self, request: PushTelemetryRequest, code: ErrorCode) -> PushTelemetryResponse:
        if code is ErrorCode.NONE and request.subscription_id != self.subscription_id:
            code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if code is ErrorCode.NONE and len(request.metrics) > self.max_bytes > 0:
            code = ErrorCode.TELEMETRY_TOO_LARGE
        if code is ErrorCode.NONE:
            self.pushes.append(attrs.evolve(request, metrics=bytes(request.metrics)))
        return PushTelemetryResponse(error_code=code)
