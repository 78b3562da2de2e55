"""The end of a command by Ctrl-C, or by a signal with which systems stop their programs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, 128 + SIGINT."""

_STOPPING: Final = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C; of containers and services; of a terminal that is closed
    if hasattr(signal, name)
)


ONE_REQUEST: Final = 0.25
"""Seconds in which further signals are the same request: `timeout` of GNU sends a signal to the program, then to all.

The first one has begun the end, which a second exception would break.
"""


class StoppedError(KeyboardInterrupt):
    """A signal as an exception; `exit_code` is 128 and its number, as shells have it."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(signal.Signals(number).name)

    def __repr__(self) -> str:
        """The signal's name: errors of records that were not queued say what interrupted them."""
        return str(self)


class Interruption:
    """The signal that interrupted a command, and its exit code."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        self._at = float("-inf")

    def raise_interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Raise StoppedError, as the handler of a signal. Right after another one, it is the same request."""
        now = time.monotonic()
        if now - self._at < ONE_REQUEST:
            return
        self._at = now
        stopped = StoppedError(number)
        self.exit_code = stopped.exit_code
        raise stopped


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a program that a signal has ended."""
    return interrupt.exit_code if isinstance(interrupt, StoppedError) else INTERRUPTED


@contextmanager
def stopping_as_ctrl_c() -> Iterator[Interruption]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in this block, too, unless they are ignored or have handlers.

    Signals that come together raise it once.
    """
    interruption = Interruption()
    before: dict[signal.Signals, Any] = {}
    for number in _STOPPING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, interruption.raise_interrupt)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
