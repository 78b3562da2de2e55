"""Log lines that a finalizer has, written by another thread.

A finalizer runs at any point of any thread's code, also where that thread holds the lock of a logging handler, or one
that a handler waits for. So it only leaves the line, and starts a thread that writes it.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
        self._ended = False

    def add(self, write_line: WriteLine) -> None:
        """Have another thread write a line. At the end of the program, which has no other thread, write it here."""
        if self._ended or sys.is_finalizing():
            write_line()
            return
        self._lines.append(write_line)
        with suppress(RuntimeError):  # no thread is left: the next one writes it, or the end of the program
            # Not `threading.Thread`, whose start takes a lock that the interrupted code may hold.
            _thread.start_new_thread(self._write_all, ())

    def end(self) -> None:
        """Write the lines that are left, at the end of the program; wait for one that is being written."""
        self._ended = True
        self._write_all(timeout=AT_EXIT_SECONDS)

    def _write_all(self, timeout: float = -1.0) -> None:
        if self._writing.acquire(timeout=timeout):
            try:
                while self._lines:
                    self._lines.popleft()()
            finally:
                self._writing.release()


finalizer_log: Final = FinalizerLog()
"""That of this process."""

atexit.register(finalizer_log.end)  # after `logging` has registered its own end, so it runs before
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=finalizer_log.forget)
