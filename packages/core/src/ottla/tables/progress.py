"""Calls of `on_progress`: at a limited rate, on threads that send or wait, and never on the I/O thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import Lock
from typing import Final

from ottla.concurrency import io_threads
from ottla.errors import InvalidRecordError
from ottla.errors.quoting import callback_name
from ottla.errors.robust_logger import robust_logger
from ottla.errors.signatures import signature_of
from ottla.results import TableProgress

logger = robust_logger(__name__)

INTERVAL: Final = 0.25
"""Seconds between two calls, at least."""


class Guarded:
    """A callback whose exception is logged. After it, the callback is not called again."""

    def __init__(self, callback: Callable[[TableProgress], object]) -> None:
        self._callback = callback
        self._failed = False

    def __call__(self, progress: TableProgress) -> None:
        """Call the callback. Raises what ends a program, such as KeyboardInterrupt."""
        if self._failed:
            return
        try:
            self._callback(progress)
        except Exception:
            self._failed = True
            name = callback_name(self._callback)
            logger.exception("on_progress %s raised an exception; it is not called again, and the table is sent", name)


class ProgressCalls:
    """The calls of one table's *callback*."""

    def __init__(self, callback: Callable[[TableProgress], object], *, clock: Callable[[], float]) -> None:
        self._callback = Guarded(callback)
        self._clock = clock
        self._due_at = clock() + INTERVAL
        self._calling = Lock()
        self._reported: TableProgress | None = None

    def report(self, count: Callable[[], TableProgress], *, last: bool = False) -> None:
        """Call the callback with what *count* returns, if a call is due, or for the *last* time.

        Calls do not overlap: if another thread calls it already, this one does not wait. There is no call for the last
        time if the counts are those of the call before.
        """
        if not (last or self._clock() >= self._due_at) or io_threads.on_io_thread():
            return
        if not self._calling.acquire(blocking=False):
            return
        try:
            self._due_at = self._clock() + INTERVAL
            progress = count()
            if not last or progress != self._reported:
                self._reported = progress
                self._callback(progress)
        finally:
            self._calling.release()


def check_on_progress(callback: object) -> None:
    """Raise for a callback that cannot be called with the progress as its only argument.

    InvalidRecordError: it cannot be called at all. TypeError: it takes another number of arguments, or is a coroutine.
    """
    if not callable(callback):
        raise InvalidRecordError(f"on_progress must be a function that takes a TableProgress, not {callback!r}")
    if inspect.iscoroutinefunction(callback):
        raise TypeError(f"on_progress is called, not awaited, and {callback_name(callback)} is a coroutine function")
    try:
        signature = signature_of(callback)
    except (TypeError, ValueError):  # of a built-in
        return
    try:
        signature.bind(object())
    except TypeError:
        raise TypeError(
            f"on_progress is called with one argument, a TableProgress, which {callback_name(callback)}{signature} "
            "does not take: define it as f(progress)"
        ) from None
