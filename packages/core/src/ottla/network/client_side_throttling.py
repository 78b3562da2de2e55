"""Responses after which the client itself has to pause before its next request (KIP-219), and the pause.

In versions before those below, a throttling broker delays its response for that time, so a client that also paused
would wait twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.protocol import Message

FIRST_VERSIONS: Final[Mapping[str, int]] = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeConfigs": 2,
}
"""The first version whose response is not delayed: `shouldClientThrottle` in the responses of Kafka's clients.

Messages that are not listed never make Java's client pause, and no broker throttles them.
"""

LONGEST: Final = 3600.0
"""Seconds; the longest pause. A response may ask for 24 days, and a pause survives a restart of the broker.

A quota that asks for more is misconfigured; a broker that enforces it stops reading our requests anyway.
"""


def pause(message: Message[Any, Any], version: int, throttle_ms: int) -> float:
    """The seconds for which the client sends no further request to the broker of a response."""
    first = FIRST_VERSIONS.get(message.name)
    client_pauses = first is not None and version >= first and throttle_ms > 0
    return min(throttle_ms / 1000, LONGEST) if client_pauses else 0.0
