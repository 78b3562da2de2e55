"""Lines for logging handlers that are busy: another thread writes them later, and the thread that logs goes on.

A handler holds its lock while it writes a line. If it sends the line with a producer, `send` may wait for the I/O
thread, for metadata or for memory. If the I/O thread then waited for the same lock to log a line of its own, both would
stand still until `max.block.ms`.

Only handlers whose lock and methods are those of `logging` are waited for in this way, and only as `logging` does it: a
thread holds the lock of one handler at a time, while that one writes. Everything else goes through `Handler.handle`.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, Final, TypeAlias

WAIT: Final = 0.2
"""Seconds for which a thread waits for a handler; one that writes to a file or a pipe takes far less."""

WAIT_AT_EXIT: Final = 2.0
"""Seconds for which the end of the program waits for all lines."""

MAX_LINES: Final = 10_000
"""Lines that wait for one handler."""

OnError: TypeAlias = Callable[[str], object]
"""Called with the name of a logger in the `except` block of what a handler or a filter raised."""


def write(logger: logging.Logger, record: logging.LogRecord, on_error: OnError) -> bool:
    """Pass a line to all handlers, as `Logger.callHandlers` does, but wait for none that is busy.

    Returns False if there are none, or if a library has replaced methods of `logging`, as those do that collect lines.
    Raises what a handler or a filter raises on this thread.
    """
    if not all(map(_is_original, (logging.Logger.callHandlers, logging.Handler.handle))):
        return False
    found = False
    for handler in _handlers(logger):
        found = True
        if record.levelno >= handler.level:
            _write(handler, record, on_error)
    return found


class _BusyHandler:
    """The lines that wait for one handler, in order, and the thread that writes them."""

    def __init__(self, handler: logging.Handler, on_error: OnError) -> None:
        self._handler = handler  # its id is that of no other handler meanwhile
        self._on_error = on_error
        self._lines: deque[logging.LogRecord] = deque()
        self._dropped = 0
        self._prepare()

    def _prepare(self) -> None:
        self.thread = threading.Thread(target=Context().run, args=(self.run,), name="ottla-log", daemon=True)
        self._to_start = [self.thread]

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, record: logging.LogRecord) -> None:
        """Add a line; the caller holds the lock."""
        if len(self._lines) < MAX_LINES:
            self._lines.append(record)
        else:
            self._dropped += 1

    def begin(self) -> bool:
        """Start the thread unless it was started; the caller holds the lock. Return False if the system has none."""
        try:
            thread = self._to_start.pop()  # at once: a finalizer that runs between two steps may log, too
            thread.start()  # it waits for the lock first
        except IndexError:
            return True
        except (RuntimeError, MemoryError):
            _state.busy.pop(id(self._handler), None)
            return False
        except BaseException:  # of a signal's handler: perhaps there is no thread, so the next line starts one
            self._prepare()
            raise
        return True

    def run(self) -> None:
        """Write all lines, whatever the handler raises."""
        while (record := self._next()) is not None:
            try:
                if not getattr(self._handler, "_closed", False):  # a closed FileHandler would open its file again
                    _emit(self._handler, record)
            except BaseException:
                self._on_error(record.name)

    def _next(self) -> logging.LogRecord | None:
        with _state.lock:
            if not self._lines and (not self._dropped or self._handler.level > logging.WARNING):
                _state.busy.pop(id(self._handler), None)  # a forked child has forgotten it
                if not self._lines:  # else a finalizer has logged since the line above
                    return None
            if self._lines:
                return self._lines.popleft()
            dropped, self._dropped = self._dropped, 0
        text = "%d lines of the log were dropped, because a logging handler was busy for too long"
        return logging.getLogger(__name__).makeRecord(__name__, logging.WARNING, __file__, 0, text, (dropped,), None)


class _State:
    """The handlers that are busy now."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again without any, in a forked process: its parent's threads write the lines."""
        self.lock = threading.RLock()  # the collector may run while it is held, and a finalizer log
        self.busy: dict[int, _BusyHandler] = {}


_state: Final = _State()
_RLock: Final = type(threading.RLock())


def _finish() -> None:
    """Wait for the lines at the end of the program, but not for ever: a handler may be busy for good."""
    deadline = time.monotonic() + WAIT_AT_EXIT
    for busy in list(_state.busy.values()):
        if busy.thread.ident is not None:  # else a signal came before its start
            busy.thread.join(max(0.0, deadline - time.monotonic()))
        if busy.thread.is_alive() and sys.stderr is not None:
            print(f"{len(busy) + 1} lines of the log are lost: their logging handler is busy", file=sys.stderr)


atexit.register(_finish)  # after `logging` has registered its own end, so it runs before

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.forget)


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    current: logging.Logger | None = logger
    while current is not None:
        yield from tuple(current.handlers)
        current = current.parent if current.propagate else None


def _write(handler: logging.Handler, record: logging.LogRecord, on_error: OnError) -> None:
    lock: Any = getattr(handler, "lock", None)
    if not _is_usual(handler, lock) or lock._is_owned():  # owned: it logs in its own emit, and may guard itself there
        handler.handle(record)
        return
    passed: Any = handler.filter(record)  # without the lock, as in Handler.handle
    if not passed:
        return
    record = passed if isinstance(passed, logging.LogRecord) else record  # Python 3.12 and later
    if id(handler) not in _state.busy and lock.acquire(timeout=WAIT):
        try:
            handler.emit(record)
        finally:
            lock.release()
    elif not _write_later(handler, record, on_error):
        _emit(handler, record)


def _emit(handler: logging.Handler, record: logging.LogRecord) -> None:
    handler.acquire()
    try:
        handler.emit(record)
    finally:
        handler.release()


def _is_original(method: Any) -> bool:
    return getattr(method, "__globals__", None) is vars(logging)


def _is_usual(handler: logging.Handler, lock: object) -> bool:
    """Return whether `logging` itself would acquire this lock, write the line and release it, and do nothing else."""
    if type(lock) is not _RLock:
        return False
    kind, base = type(handler), logging.Handler
    return (
        kind.handle is base.handle
        and kind.acquire is base.acquire
        and kind.release is base.release
        and vars(handler).keys().isdisjoint(("handle", "acquire", "release"))
    )


def _lasting(record: logging.LogRecord) -> logging.LogRecord:
    """A copy with the texts that its arguments have now; of a class of the program the record itself."""
    record.getMessage()  # raises here, where the error can be printed with the line's place
    if type(record) is not logging.LogRecord:
        return record
    record = copy.copy(record)  # other handlers get it as it is
    if isinstance(record.args, tuple):
        record.args = tuple(each if isinstance(each, str | int | float) else str(each) for each in record.args)
    return record


def _write_later(handler: logging.Handler, record: logging.LogRecord, on_error: OnError) -> bool:
    """Let another thread write a line; return False if the system has no thread for it."""
    record = _lasting(record)
    with _state.lock:
        busy = _state.busy.get(id(handler))
        if busy is None:
            busy = _state.busy.setdefault(id(handler), _BusyHandler(handler, on_error))
        if busy.begin():
            busy.add(record)
            return True
    busy.run()  # without a thread: the lines that finalizers have added meanwhile
    return False
