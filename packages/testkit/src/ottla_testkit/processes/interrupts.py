"""Ctrl-C, deferred while processes are started or ended.

An interrupt inside `Popen` would lose the process that has just been created. A second one during the cleanup after the
first would leave the rest of it undone.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer SIGINT to the end of the block. Other threads never receive it."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if noted:
            signal.raise_signal(signal.SIGINT)
