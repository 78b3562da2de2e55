"""The waits of one `send_table`: for metadata, memory and lookups of a serializer; and its cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from ottla.concurrency.cancellation import Cancellation

T = TypeVar("T")


@attrs.define(kw_only=True, eq=False)
class TableWaits:
    """The seconds that were waited since the last batch was queued, or with a *timeout*, since the call began.

    Without a *timeout*, each batch may wait for `max.block.ms`. Once the *cancellation* is made, no batch is queued.
    """

    timeout: float | None
    clock: Callable[[], float]
    seconds: float = 0.0
    cancellation: Cancellation = attrs.field(factory=Cancellation)

    def of(self, call: Callable[[], T]) -> T:
        """Return what *call* returns, and count its time as waited."""
        started_at = self.clock()
        try:
            return call()
        finally:
            self.seconds += self.clock() - started_at

    def note_queued(self) -> None:
        """Note that a batch was queued."""
        if self.timeout is None:
            self.seconds = 0.0
