"""The reaction to error codes in responses to telemetry requests, as in Java."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from ottla.errors import ErrorCode


class TelemetryErrorAction(enum.Enum):
    """What follows an error."""

    ASK_NOW = "request the subscription at once"
    ASK_LATER = "request the subscription after the interval"
    STOP = "send no more telemetry requests"


_ACTIONS: Final[Mapping[ErrorCode, TelemetryErrorAction]] = {
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: TelemetryErrorAction.ASK_NOW,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: TelemetryErrorAction.ASK_NOW,
    ErrorCode.TELEMETRY_TOO_LARGE: TelemetryErrorAction.ASK_LATER,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: TelemetryErrorAction.ASK_LATER,
    ErrorCode.INVALID_REQUEST: TelemetryErrorAction.STOP,
    ErrorCode.INVALID_RECORD: TelemetryErrorAction.STOP,
    ErrorCode.UNSUPPORTED_VERSION: TelemetryErrorAction.STOP,
}


def telemetry_error_action(code: ErrorCode) -> TelemetryErrorAction:
    """The reaction to an error code; one that KIP-714 does not name stops telemetry."""
    return _ACTIONS.get(code, TelemetryErrorAction.STOP)
