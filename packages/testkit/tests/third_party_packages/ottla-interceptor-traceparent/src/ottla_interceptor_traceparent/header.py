"""The header `traceparent` of W3C's Trace Context, version 00."""

from __future__ import annotations

import os
from typing import Final

HEADER: Final = "traceparent"
TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
VERSION: Final = "00"


def new_id(size: int) -> str:
    """Return a random id of *size* bytes in lower-case hex; only zeros would be no id."""
    while True:
        made = os.urandom(size)
        if any(made):
            return made.hex()


def beginning(trace: str) -> str:
    """Return what comes before the span id."""
    return f"{VERSION}-{trace}-"


def end(*, sampled: bool) -> str:
    """Return what comes after the span id."""
    return "-01" if sampled else "-00"


def traceparent(trace: str, span: str, *, sampled: bool) -> bytes:
    """Return the header's value."""
    return (beginning(trace) + span + end(sampled=sampled)).encode()
