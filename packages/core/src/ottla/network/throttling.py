"""Brokers that throttle the client because of a quota: pauses, metrics, log lines, and the error that names them."""

from __future__ import annotations

from typing import Any

from ottla.errors import NetworkError
from ottla.metrics import Counters
from ottla.network.client_side_throttling import pause
from ottla.network.connection import Connection
from ottla.network.throttle_log import ThrottleLog
from ottla.protocol import Message


class ThrottledBrokers:
    """Pauses connections for the throttle times of their brokers' responses, and logs long pauses."""

    def __init__(self, *, counters: Counters, client_id: str) -> None:
        self._times = counters.producer.throttles
        self._buckets = counters.producer.throttle_buckets
        self.log = ThrottleLog(client_id=client_id)

    def throttle(
        self, connection: Connection, message: Message[Any, Any], version: int, throttle_ms: int, now: float
    ) -> None:
        """Let a connection take no request for the throttle time of a response. Does not block."""
        self._times.add(float(throttle_ms))
        self._buckets.add(float(throttle_ms))
        if throttle_ms > 0 and (seconds := pause(message, version, throttle_ms)):
            connection.throttle(seconds, now)
            self.log.paused(connection.broker, seconds, now)

    def error(self, connection: Connection, now: float) -> NetworkError | None:
        """An error that describes a broker's throttling; None if it does not throttle."""
        seconds = self.log.lasting(connection.broker, now)
        if seconds is None:
            return None
        return NetworkError(
            f"{connection.broker} throttles this client because of a quota, for {seconds:.1f} s by now; send less, or "
            "have the quota of this user or client.id raised"
        )
