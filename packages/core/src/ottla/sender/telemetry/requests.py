"""Telemetry requests. Imported when a broker offers them: the classes of messages take time to make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.network import Completion, Request
from ottla.protocol import Message
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    GetTelemetrySubscriptionsRequest,
)
from ottla.protocol.messages.push_telemetry import PUSH_TELEMETRY, PushTelemetryRequest
from ottla.sender.telemetry.payload import Payload
from ottla.sender.telemetry.subscription import Subscription


def subscription_request(client_instance_id: bytes, on_complete: Callable[[Completion], object]) -> Request:
    """The request for the subscription of a client; its id is zero until a broker has assigned one."""
    body = GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id)
    return _request(GET_TELEMETRY_SUBSCRIPTIONS, body, on_complete)


def push_request(
    subscription: Subscription, payload: Payload, *, terminating: bool, on_complete: Callable[[Completion], object]
) -> Request:
    """The request that carries a payload; *terminating*: it is the client's last one."""
    body = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        terminating=terminating,
        compression_type=payload.compression_type,
        metrics=payload.content,
    )
    return _request(PUSH_TELEMETRY, body, on_complete)


def _request(message: Message[Any, Any], body: object, on_complete: Callable[[Completion], object]) -> Request:
    return Request(
        message=message, body=lambda version: [message.request(version).encode(body)], on_complete=on_complete
    )
