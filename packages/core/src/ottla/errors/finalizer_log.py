"""Log lines that a finalizer has, written by another thread.

A finalizer runs at any point of any thread's code, also where that thread holds the lock of a logging handler, or one
that a handler waits for. So it only leaves the line, and starts a thread that writes it, unless one has been started
and not begun: at most one thread waits while a handler is busy with an earlier line.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

AT_EXIT_SECONDS: Final = 5.0
"""Seconds for which the end of the program waits for a handler."""

WriteLine: TypeAlias = Callable[[], object]


class FinalizerLog:
    """The lines that are not written yet. For any thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again without any, in a forked process: its parent writes the lines."""
        self._lines: deque[WriteLine] = deque()
        self._writing = threading.Lock()
        self._to_start: list[bool] = [True]  # empty while a thread is to write all lines that are left until it begins
        self._ended = False

    def add(self, write_line: WriteLine) -> None:
        """Have another thread write a line. At the end of the program, which has no other thread, write it here."""
        if self._ended or sys.is_finalizing():
            write_line()
            return
        self._lines.append(write_line)
        self._start()

    def end(self) -> None:
        """Write the lines that are left, at the end of the program; wait for one that is being written."""
        self._ended = True
        self._write_all(timeout=AT_EXIT_SECONDS)

    def _start(self) -> None:
        try:
            self._to_start.pop()  # at once: a finalizer that runs between two steps may log, too
            # Not `threading.Thread`, whose start takes a lock that the interrupted code may hold.
            _thread.start_new_thread(self._run, ())
        except IndexError:
            pass
        except BaseException as error:  # perhaps of a signal's handler, when there is a thread: then two may wait
            self._to_start.append(True)
            if not isinstance(error, RuntimeError | MemoryError):
                raise
            # No thread is left: the next line starts one, or the end of the program writes this one.

    def _run(self) -> None:
        try:
            self._write_all()
        finally:
            if self._lines:  # writing one of them has raised
                self._start()

    def _write_all(self, timeout: float = -1.0) -> None:
        if self._writing.acquire(timeout=timeout):
            try:
                if not self._to_start:
                    self._to_start.append(True)
                while self._lines:
                    self._lines.popleft()()
            finally:
                self._writing.release()


finalizer_log: Final = FinalizerLog()
"""That of this process."""

atexit.register(finalizer_log.end)  # after `logging` has registered its own end, so it runs before
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=finalizer_log.forget)
