"""Where mechanisms that may block compute: a thread beside the I/O thread, made when the first one needs it.

One at a time, so that a mechanism sees one thread. One that does not come back is left behind with its thread when its
connection gives up on it, and the others go on with a new thread: a token endpoint that hangs must not stop every login
for good.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

import attrs

from ottla.errors import ConnectionFailedError, NetworkError
from ottla.interfaces import Step


@attrs.define(eq=False)
class Computation:
    """Something being computed. `outcome` is None until it has been; an error is what it raised."""

    work: Callable[[], Step] = attrs.field(repr=False)
    outcome: Step | NetworkError | None = attrs.field(default=None, repr=False)

    def run(self) -> None:
        """Compute."""
        try:
            self.outcome = self.work()
        except NetworkError as error:
            self.outcome = error


class AuthWorker:
    """For the I/O thread. *wake* is called by the other one whenever an outcome is there."""

    def __init__(self, *, name: str, wake: Callable[[], object]) -> None:
        self._name = name
        self._wake = wake
        self._changed = threading.Condition()
        self._waiting: deque[Computation] = deque()
        self._current: Computation | None = None
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], Step]) -> Computation:
        """Have something computed. Raises ConnectionFailedError when there is no thread for it."""
        computation = Computation(work)
        with self._changed:
            self._waiting.append(computation)
            try:
                self._start_thread()
            except RuntimeError as cause:  # the system gives no more threads
                self._waiting.remove(computation)
                raise ConnectionFailedError(f"there is no thread for the login: {cause}") from cause
        return computation

    def cancel(self, computation: Computation) -> None:
        """Nobody waits for it any more."""
        with self._changed:
            if computation in self._waiting:
                self._waiting.remove(computation)
            elif computation is self._current:
                self._drop_thread()

    def close(self) -> None:
        """Compute nothing more; the thread ends as soon as it comes back from what it computes."""
        with self._changed:
            self._waiting.clear()
            self._drop_thread()

    def _start_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._changed.notify_all()

    def _drop_thread(self) -> None:
        self._thread = self._current = None
        self._changed.notify_all()
        if self._waiting:
            with contextlib.suppress(RuntimeError):  # no more threads now: the next `begin` may get one
                self._start_thread()

    def _run(self) -> None:
        while (computation := self._next()) is not None:
            computation.run()
            self._wake()

    def _next(self) -> Computation | None:
        """What to compute next; None: this thread is dismissed."""
        with self._changed:
            while self._thread is threading.current_thread():
                self._current = self._waiting.popleft() if self._waiting else None
                if self._current is not None:
                    return self._current
                self._changed.wait()
        return None
