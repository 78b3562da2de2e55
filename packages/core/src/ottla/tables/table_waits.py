"""The waits of one `send_table`: for metadata, memory and lookups of a serializer; and its cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from ottla.accumulator.append_permission import AppendPermission
from ottla.concurrency.cancellation import Cancellation

T = TypeVar("T")


@attrs.define(kw_only=True, eq=False)
class TableWaits:
    """The seconds that were waited since the last batch was queued, or with a *timeout*, since the call began.

    Without a *timeout*, each batch may wait for `max.block.ms`. Once the *cancellation* is made, no batch is queued;
    none ever is in another *transaction* than that of this number.
    """

    timeout: float | None
    clock: Callable[[], float]
    seconds: float = 0.0
    cancellation: Cancellation = attrs.field(factory=Cancellation)
    permission: AppendPermission = attrs.field(factory=lambda: AppendPermission(None))
    transaction: int = 0

    def check(self) -> None:
        """Raise if no further batch may be queued."""
        self.cancellation.check()
        self.permission.check(self.transaction)

    @property
    def given_up(self) -> bool:
        """Return whether rows that are refused now are to fail no transaction: theirs ends, or another one is open."""
        return self.cancellation.error is not None or self.permission.has_ended(self.transaction)

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
