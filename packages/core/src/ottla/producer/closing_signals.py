"""The end of a process by a signal, such as the SIGTERM of a container: producers are closed first."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Final

from ottla.errors import IllegalStateError
from ottla.producer import lifecycle

TIMEOUT: Final = 8.0
"""Seconds; `docker stop` waits ten before it kills."""


def close_on_signals(*signals: int, timeout: float = TIMEOUT) -> None:
    """Have SIGTERM, or the given *signals*, close all producers of this process before the process ends.

    Queued records are sent for at most *timeout* seconds, the rest fails, and the log has their number. Then the signal
    ends the process as it would have without this call. A second signal ends it immediately.

    A signal that the program, its server or its event loop handles is left alone: that handler ends the program, and
    the producers are closed at exit. Call this on the main thread; otherwise it raises IllegalStateError.
    """
    if threading.current_thread() is not threading.main_thread():
        raise IllegalStateError("close_on_signals works on the main thread only, as all handlers of signals do")

    def close(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        try:
            lifecycle.close_all(timeout)
        finally:
            signal.raise_signal(number)
            os._exit(128 + number)  # the first process of a container, which no signal ends by default

    for number in signals or (signal.SIGTERM,):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, close)
