"""The states of client telemetry, and which may follow which."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class TelemetryState(enum.Enum):
    """The next request to brokers, or the one whose response is awaited."""

    SUBSCRIPTION_NEEDED = "brokers have to be asked for a subscription"
    SUBSCRIPTION_IN_PROGRESS = "a subscription was requested"
    PUSH_NEEDED = "metrics are to be pushed at the end of the interval"
    PUSH_IN_PROGRESS = "metrics were pushed"
    TERMINATING_PUSH_NEEDED = "the last metrics are to be pushed now"
    TERMINATING_PUSH_IN_PROGRESS = "the last metrics were pushed"
    TERMINATED = "no more requests are sent"


NEXT_STATES: Final[Mapping[TelemetryState, frozenset[TelemetryState]]] = {
    TelemetryState.SUBSCRIPTION_NEEDED: frozenset({TelemetryState.SUBSCRIPTION_IN_PROGRESS, TelemetryState.TERMINATED}),
    TelemetryState.SUBSCRIPTION_IN_PROGRESS: frozenset(
        {
            TelemetryState.SUBSCRIPTION_NEEDED,
            TelemetryState.PUSH_NEEDED,
            TelemetryState.TERMINATING_PUSH_NEEDED,
            TelemetryState.TERMINATED,
        }
    ),
    TelemetryState.PUSH_NEEDED: frozenset(
        {
            TelemetryState.SUBSCRIPTION_NEEDED,
            TelemetryState.PUSH_IN_PROGRESS,
            TelemetryState.TERMINATING_PUSH_NEEDED,
            TelemetryState.TERMINATED,
        }
    ),
    TelemetryState.PUSH_IN_PROGRESS: frozenset(
        {
            TelemetryState.SUBSCRIPTION_NEEDED,
            TelemetryState.PUSH_NEEDED,
            TelemetryState.TERMINATING_PUSH_NEEDED,
            TelemetryState.TERMINATED,
        }
    ),
    TelemetryState.TERMINATING_PUSH_NEEDED: frozenset(
        {TelemetryState.TERMINATING_PUSH_IN_PROGRESS, TelemetryState.TERMINATED}
    ),
    TelemetryState.TERMINATING_PUSH_IN_PROGRESS: frozenset({TelemetryState.TERMINATED}),
    TelemetryState.TERMINATED: frozenset(),
}
"""The states that may follow each state, as in Java."""
