"""The limit of the waits of one call: `max.block.ms`, or the call's own time-out, and the check of the latter."""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from typing import Self

import attrs

from ottla.config.values import brief


@attrs.frozen(eq=False, repr=False)
class WaitLimit:
    """The seconds that one call may wait altogether, and the name of what sets them, for errors."""

    seconds: float
    name: str

    @classmethod
    def of(cls, timeout: float | None, *, max_block: float) -> Self:
        """The limit of a call with this *timeout*; without one, that of `max.block.ms`, which is *max_block*."""
        return cls(max_block, "max.block.ms") if timeout is None else cls(max(float(timeout), 0.0), "timeout")


def check_timeout(timeout: object) -> None:
    """Raise TypeError unless it is a number. Called only for a time-out that was given, which None is not.

    NaN is none: an event loop with a timer at that time calls its other timers late.
    """
    if not isinstance(timeout, Real) or timeout != timeout:
        help_ = "; pass its total_seconds()" if isinstance(timeout, timedelta) else ""
        raise TypeError(f"timeout must be a number of seconds, not {brief(timeout)}{help_}")
