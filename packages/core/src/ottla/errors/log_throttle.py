"""Rate-limited logging of errors that may occur for every record."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Final

from ottla.errors import counted

SILENCE_SECONDS: Final = 30.0
"""Seconds without another line about the same failure."""


class ThrottledLog:
    """Logs failures, at most once in `SILENCE_SECONDS` for each key. For any thread."""

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may interrupt it, and log as well
        self._silent: dict[Hashable, tuple[float, int]] = {}

    def error(self, key: Hashable, line: str, *arguments: object, error: BaseException) -> None:
        """Log a line with the error and its traceback, unless a line for *key* was logged recently."""
        now = self._clock()
        with self._lock:
            until, suppressed = self._silent.get(key, (now, 0))
            if now < until:
                self._silent[key] = (until, suppressed + 1)
                return
            self._silent[key] = (now + SILENCE_SECONDS, 0)
        more = f"; {counted(suppressed, 'more failure')} since the last line" if suppressed else ""
        try:
            self._logger.error(f"{line}: %s%s", *arguments, type(error).__name__, more, exc_info=error)
        except BaseException:  # too deep a recursion, which a plugin may cause: the next failure has the line
            self._silent.pop(key, None)
            raise
