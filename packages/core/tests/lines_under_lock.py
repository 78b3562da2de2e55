"""Log lines of finalizers, which run at any point, also where a thread holds a lock that a log handler waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from machine import wait_until


class LockingHandler(logging.Handler):
    """As one that writes to a queue, or with the connections of a client."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = threading.Lock()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self.guard:
            self.lines.append(record.getMessage())


def lines_logged_under_lock(finalize: Callable[[], object]) -> list[str]:
    """Call *finalize* on a thread that holds the lock; returns the lines, once there is one. Fails if it waits."""
    handler = LockingHandler()

    def finalize_under_lock() -> None:
        with handler.guard:
            finalize()

    logging.getLogger("ottla").addHandler(handler)
    try:
        thread = threading.Thread(target=finalize_under_lock, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        wait_until(lambda: handler.lines, timeout=20)
    finally:
        logging.getLogger("ottla").removeHandler(handler)
    return handler.lines
