"""A telemetry subscription: which metrics brokers want, how often, and in which form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ottla.errors import ProtocolError
from ottla.protocol.notation import ZERO_UUID
from ottla.results.value_methods import ValueMethods

if TYPE_CHECKING:  # the classes of messages are made when a broker offers them
    from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

DEFAULT_INTERVAL: Final = 300.0
"""Seconds between requests where no broker has named an interval."""

INTERVALS: Final = (0.1, 3600.0)
"""The bounds of an interval in seconds, as Kafka's brokers have them.

A push takes processor time from records. A changed subscription is noticed by the next push.
"""

ALL_METRICS: Final = "*"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Subscription(ValueMethods):
    """What brokers want of this client. *compression_types* are codec ids, the preferred one first.

    *max_bytes* limits a compressed payload; it is 0 if no limit is known. With *delta*, sums count from the last push
    on.
    """

    client_instance_id: bytes
    subscription_id: int
    push_interval: float
    compression_types: tuple[int, ...]
    max_bytes: int
    delta: bool
    prefixes: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Return whether no metric is wanted."""
        return not self.prefixes

    def wants(self, name: str) -> bool:
        """Return whether a metric of this telemetry name is wanted."""
        return self.prefixes == (ALL_METRICS,) or name.startswith(self.prefixes)


def read_subscription(response: GetTelemetrySubscriptionsResponse) -> Subscription:
    """The subscription in a response without an error. Raises ProtocolError if it assigns no client instance id."""
    if response.client_instance_id == ZERO_UUID:
        raise ProtocolError("the broker assigned no client instance id in its telemetry subscription")
    interval_ms = response.push_interval_ms
    shortest, longest = INTERVALS
    return Subscription(
        client_instance_id=response.client_instance_id,
        subscription_id=response.subscription_id,
        push_interval=min(max(interval_ms / 1000, shortest), longest) if interval_ms > 0 else DEFAULT_INTERVAL,
        compression_types=tuple(response.accepted_compression_types),
        max_bytes=max(response.telemetry_max_bytes, 0),
        delta=response.delta_temporality,
        prefixes=tuple(response.requested_metrics),
    )


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka writes it: 22 characters of base64."""
    from base64 import urlsafe_b64encode  # imported late, as the messages are

    return urlsafe_b64encode(uuid).rstrip(b"=").decode()
