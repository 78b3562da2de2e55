"""The result that a caller waits for, set by the I/O thread."""

from __future__ import annotations

from collections.abc import Callable

import attrs

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

    def on_end(self, function: Callable[[], object]) -> None:
        """Call *function* once the result is set, on the thread that sets it; now if it is set. Perhaps twice."""
        self._ended.add_gate(_Callback(function))


@attrs.frozen(eq=False)
class _Callback:
    """A gate of a latch that is a function."""

    release: Callable[[], object]
