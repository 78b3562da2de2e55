"""What a caller waits for while the I/O thread brings it about."""

from __future__ import annotations

from ottla.concurrency.locks import Latch
from ottla.errors import OttlaError


class TransactionalRequestResult:
    """One operation: ended once, with an error or without. For any thread.

    `unclaimed`: nobody was told of its end, so that the same call again is told of it.
    """

    __slots__ = ("_ended", "error", "unclaimed", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.error: OttlaError | None = None
        self.unclaimed = True
        self._ended = Latch()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set

    def end(self, error: OttlaError | None = None) -> None:
        """It is done, or came to nothing because of *error*."""
        if not self._ended.is_set:
            self.error = error
            self._ended.set()

    def wait(self, timeout: float) -> bool:
        """Wait for its end, at most *timeout* seconds; False: time ran out. Raises what it came to nothing with."""
        if not self._ended.wait(timeout):
            return False
        self.unclaimed = False
        if self.error is not None:
            raise self.error.with_traceback(None)
        return True
