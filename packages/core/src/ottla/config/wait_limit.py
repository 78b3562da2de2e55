"""The limit of the waits of one call: `max.block.ms`, or the call's own time-out."""

from __future__ import annotations

from typing import Self

import attrs


@attrs.frozen
class WaitLimit:
    """The seconds that one call may wait altogether, and the name of what sets them, for errors."""

    seconds: float
    name: str

    @classmethod
    def of(cls, timeout: float | None, *, max_block: float) -> Self:
        """The limit of a call with this *timeout*; None: that of `max.block.ms`, which is *max_block*."""
        return cls(max_block, "max.block.ms") if timeout is None else cls(max(float(timeout), 0.0), "timeout")
