"""Lines for logging handlers that are busy: another thread writes them later, and the thread that logs goes on.

A handler holds its lock while it writes a line. If it sends the line with a producer, `send` may wait for the I/O
thread, for metadata or for memory. If the I/O thread then waited for the same lock to log a line of its own, both would
stand still until `max.block.ms`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

WAIT: Final = 0.2
"""Seconds for which a thread waits for each handler; a handler that writes to a file or a pipe takes far less."""

MAX_LINES: Final = 10_000

_Write: TypeAlias = Callable[[logging.LogRecord], object]


@contextmanager
def held_handlers(logger: logging.Logger, level: int) -> Iterator[bool]:
    """Hold the locks of all handlers that get a line of this *level*; yields whether none of them was busy.

    A lock that this thread holds already is held once more.
    """
    with ExitStack() as held:
        yield all(_hold(handler, held) for handler in _handlers(logger, level))


class LaterLines:
    """Lines that a thread writes in order, once their handlers have time. Any thread may add one."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again without lines, in a forked process: its parent's thread writes them."""
        self._lock = threading.Lock()
        self._lines: deque[tuple[_Write, logging.LogRecord]] = deque()
        self._dropped = 0
        self._running = False

    @property
    def pending(self) -> bool:
        """Return whether earlier lines are not written yet: later ones have to wait for them."""
        return self._running

    def add(self, write: _Write, record: logging.LogRecord) -> None:
        """Let the thread *write* this line, with the text that it has now."""
        record.msg, record.args = record.getMessage(), None
        with self._lock:
            if len(self._lines) == MAX_LINES:
                self._dropped += 1
                return
            self._lines.append((write, record))
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._run, name="ottla-log", daemon=True).start()
        except RuntimeError:  # the system has no more threads: the next line tries again
            self._running = False

    def _run(self) -> None:
        while (line := self._next()) is not None:
            write, record = line
            write(record)

    def _next(self) -> tuple[_Write, logging.LogRecord] | None:
        with self._lock:
            if self._lines:
                return self._lines.popleft()
            self._running = bool(self._dropped)
            dropped, self._dropped = self._dropped, 0
        return _dropped_line(dropped) if dropped else None


def _dropped_line(count: int) -> tuple[_Write, logging.LogRecord]:
    logger = logging.getLogger(__name__)
    text = "%d lines of the log were dropped, because a logging handler was busy for too long"
    return logger.handle, logger.makeRecord(__name__, logging.WARNING, __file__, 0, text, (count,), None)


def _handlers(logger: logging.Logger, level: int) -> Iterator[logging.Handler]:
    current: logging.Logger | None = logger
    while current is not None:
        yield from (handler for handler in tuple(current.handlers) if level >= handler.level)
        current = current.parent if current.propagate else None


def _hold(handler: logging.Handler, held: ExitStack) -> bool:
    lock = handler.lock
    if lock is None:
        return True
    try:
        acquired = lock.acquire(timeout=WAIT)
    except TypeError:  # a lock of another kind, which the handler has made for itself
        return True
    if acquired:
        held.callback(lock.release)
    return acquired


later: Final = LaterLines()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=later.forget)
