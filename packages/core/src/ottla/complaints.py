"""Log lines about somebody who may fail for every record: the first time, and then now and again with a count."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Final

SILENCE_SECONDS: Final = 30.0
"""For so long nothing more is said of the same fault."""


class Complaints:
    """Says what failed, at most once in a while for each *who*. For any thread."""

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may interrupt it, and come here
        self._silent: dict[Hashable, tuple[float, int]] = {}

    def about(self, who: Hashable, what: str, error: BaseException) -> None:
        """Log *what* with the error and where it was raised, unless *who* was complained of a short while ago."""
        now = self._clock()
        with self._lock:
            until, unsaid = self._silent.get(who, (now, 0))
            if now < until:
                self._silent[who] = (until, unsaid + 1)
                return
            self._silent[who] = (now + SILENCE_SECONDS, 0)
        more = f"; {unsaid} more failures since the last line" if unsaid else ""
        self._logger.error("%s: %s%s", what, type(error).__name__, more, exc_info=error)
