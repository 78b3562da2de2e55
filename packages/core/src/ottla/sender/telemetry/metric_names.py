"""The names and attributes under which KIP-714 knows the metrics of a producer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DOMAIN: Final = "org.apache.kafka"

CLIENT_ID: Final = "client_id"
"""An attribute that is left out: brokers know the client id of a request."""


def telemetry_name(group: str, name: str) -> str:
    """The name for subscriptions, such as org.apache.kafka.producer.record.send.total."""
    return f"{DOMAIN}.{_dotted(group).replace('.metrics', '')}.{_dotted(name)}"


def telemetry_attributes(tags: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """A metric's tags as attributes, such as ("node_id", "node-1")."""
    cleaned = ((label.lower().replace("-", "_"), of) for label, of in tags)
    return tuple((label, of) for label, of in cleaned if label != CLIENT_ID)


def _dotted(words: str) -> str:
    return words.lower().replace("-", ".")
