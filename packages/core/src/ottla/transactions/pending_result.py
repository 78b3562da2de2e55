"""The result that a caller waits for, set by the I/O thread."""

from __future__ import annotations

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import Latch
from ottla.errors import OttlaError


class TransactionalRequestResult:
    """The result of one call of `method`; it ends once, with an error or without. For any thread.

    `unclaimed`: no caller has got the result yet, so a repeated call returns it.
    """

    __slots__ = ("_ended", "error", "method", "unclaimed")

    def __init__(self, method: str, environment: Environment = SYSTEM) -> None:
        self.method = method
        self.error: OttlaError | None = None
        self.unclaimed = True
        self._ended = Latch(environment)

    @property
    def ended(self) -> bool:
        """Return whether the operation has ended."""
        return self._ended.is_set

    def end(self, error: OttlaError | None = None) -> None:
        """Set the result: success, or *error*. Has no effect if it is already set."""
        if not self._ended.is_set:
            self.error = error
            self._ended.set()

    def wait(self, timeout: float) -> bool:
        """Wait for the result, at most *timeout* seconds; False if time ran out. Raises the operation's error."""
        if not self._ended.wait(timeout):
            return False
        self.unclaimed = False
        if self.error is not None:
            raise self.error.with_traceback(None)
        return True
