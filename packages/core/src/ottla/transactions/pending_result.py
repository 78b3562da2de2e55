"""The result that a caller waits for, set by the I/O thread."""

from __future__ import annotations

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import Latch
from ottla.errors import OttlaError
from ottla.errors.notes import unshared


class TransactionalRequestResult:
    """The result of one call of `method`; it ends once, with an error or without. For any thread.

    `unclaimed`: no caller has got the result yet, so a repeated call returns it. `awaited`: the caller still waits; its
    time has not run out, and its task was not cancelled. `required`: a caller has to get the result before it calls
    another method; not if its task was cancelled.
    """

    __slots__ = ("_ended", "awaited", "error", "method", "required", "unclaimed")

    def __init__(self, method: str, environment: Environment = SYSTEM) -> None:
        self.method = method
        self.error: OttlaError | None = None
        self.unclaimed = self.awaited = True
        self.required = True
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

    def wait_until_ended(self, timeout: float) -> None:
        """Wait for the result, at most *timeout* seconds."""
        self._ended.wait(timeout)

    def claim(self) -> None:
        """Note that a caller gets this result, which has ended. Raises the operation's error."""
        self.unclaimed = False
        if self.error is not None:
            raise unshared(self.error)

    @property
    def latch(self) -> Latch:
        """The latch that is set once there is a result, on the thread that sets it."""
        return self._ended
