"""Conditions of a simulated connection."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class LinkConditions:
    """Conditions between the client and a broker. The default is a broker on this machine with an idle network."""

    round_trip: float = 0.0
    jitter: float = 0.0
    """Maximum additional seconds for each piece, in each direction."""
    bandwidth: float | None = None
    """Bytes per second in each direction, or None for no limit."""
    setup: float = 0.0
    """Additional seconds until a connection is established."""
    buffer: int | None = None
    """Size of the socket's buffer in bytes, or None for no limit."""
    partial_writes: float = 0.0
    """Probability that a write takes only a part of its bytes."""
    nothing: float = 0.0
    """Probability that a write takes nothing."""
    pieces: float = 0.0
    """Probability that a response arrives in several pieces."""
