"""Numbers about single records that also callers without an encoder need."""

from __future__ import annotations

from typing import Final

TIMESTAMP_MAX: Final = 2**63 - 1

OBJECT_COST: Final = 176
"""Bytes of memory that a queued record takes besides its data: object headers, timestamp, entries in the columns."""
