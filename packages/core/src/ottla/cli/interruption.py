"""The end of a command by Ctrl-C, or by a signal with which systems stop their programs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, 128 + SIGINT."""

_STOPPING: Final = tuple(
    signal.Signals[name]
    for name in ("SIGTERM", "SIGHUP")  # of containers and services; of a terminal that is closed
    if hasattr(signal, name)
)


class Interruption:
    """The signal that interrupted a command; `exit_code` is 128 and its number, as shells have it."""

    exit_code = INTERRUPTED

    def raise_interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt, as the handler of a signal."""
        self.exit_code = 128 + number
        raise KeyboardInterrupt


@contextmanager
def stopping_as_ctrl_c() -> Iterator[Interruption]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in this block, unless they are ignored or have handlers."""
    interruption = Interruption()
    before: dict[signal.Signals, Any] = {}
    for number in _STOPPING:
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, interruption.raise_interrupt)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
