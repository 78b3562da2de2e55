"""The limits of an examination: its time, the time of each wait, and the size of a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

_TRIES: Final = 7
"""Waits that may follow each other: name, connection, handshake, response, login, broker, record."""


@attrs.frozen
class Bounds:
    """The limits of one examination: `timeout` is the longest single wait, `ends_at` the end of everything, on `clock`.

    `answer_bytes` is `receive.message.max.bytes`.
    """

    timeout: float
    ends_at: float
    clock: Callable[[], float]
    answer_bytes: int = 100_000_000

    @classmethod
    def of(cls, timeout: float, clock: Callable[[], float]) -> Bounds:
        """The limits of an examination that may take *timeout* seconds from now on."""
        return cls(timeout / _TRIES, clock() + timeout, clock)

    def deadline(self) -> float:
        """The deadline of a wait that begins now."""
        return min(self.clock() + self.timeout, self.ends_at)

    def remaining(self) -> float:
        """The time until the end of everything, in seconds: for the last step. 0 if it is over."""
        return max(self.ends_at - self.clock(), 0.0)
