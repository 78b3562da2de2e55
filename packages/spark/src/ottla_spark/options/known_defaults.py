"""Settings of producers that the parts for Spark read, too, and defaults of the core and of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"

BROKERS_MAX_TIMEOUT_MS: Final = 900_000
"""Brokers' default of transaction.max.timeout.ms, 15 minutes: used where brokers do not return it."""

_MAX_BLOCK_MS: Final = 60_000


def max_block_seconds(producer: Mapping[str, Any]) -> float:
    """Return `max.block.ms` of a producer with these settings, in seconds."""
    return float(producer.get("max.block.ms", _MAX_BLOCK_MS)) / 1000
