"""Signals while the main thread does what must not break off in the middle.

Python runs a signal's handler on the main thread between any two steps of it. Ctrl-C alone, with the handler that
raises KeyboardInterrupt, is put off until the end of the block; where a program has handlers of its own, which may do
anything, the block is not to be entered at all.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps: the wrappers look for an enum, 4.5 us each time
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

_handler_of: Final[Callable[[int], Any]] = _signal.getsignal
_handle_by: Final[Callable[[int, Any], Any]] = _signal.signal
_OTHERS: Final = tuple(int(number) for number in signal.valid_signals() if number != signal.SIGINT)


def here() -> bool:
    """Whether this is the thread that handlers run on."""
    return threading.get_ident() == threading.main_thread().ident


def only_ctrl_c() -> bool:
    """Whether no handler can run but the one that raises KeyboardInterrupt."""
    usual = _handler_of(signal.SIGINT)
    if callable(usual) and usual is not signal.default_int_handler:
        return False
    return not any(map(callable, map(_handler_of, _OTHERS)))


IMPATIENCE: Final = 1.0
"""A block that is not at its end so many seconds after Ctrl-C hangs: then another one breaks it off."""


_under_way: CtrlC | None = None


class CtrlC:
    """A block on the main thread in which Ctrl-C is only `noted`, and *told*; it takes effect at the end."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell
        self._usual = _handler_of(signal.SIGINT)
        self.noted = False
        self._noted_at = 0.0

    def __enter__(self) -> Self:
        global _under_way
        if callable(self._usual):
            _under_way = self
            try:
                _handle_by(signal.SIGINT, self._note)
            except ValueError:  # a subinterpreter, where no handler ever runs
                self._usual = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _under_way
        if callable(self._usual):
            _handle_by(signal.SIGINT, self._usual)  # what comes from here on takes effect by itself
        _under_way = None
        if self.noted and kind is None:
            signal.raise_signal(signal.SIGINT)

    def forget(self) -> None:
        """This is a forked child, where the block has no end."""
        if _handler_of(signal.SIGINT) == self._note:
            _handle_by(signal.SIGINT, self._usual)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted and time.monotonic() - self._noted_at >= IMPATIENCE:
            raise KeyboardInterrupt
        if not self.noted:
            self.noted, self._noted_at = True, time.monotonic()
        self._tell()


@contextmanager
def put_off() -> Iterator[None]:
    """A short block, on any thread, at whose end Ctrl-C takes effect; handlers of the program's own are not put off."""
    if here() and only_ctrl_c():
        with CtrlC(lambda: None):
            yield
    else:
        yield


def _forget_in_child() -> None:
    if _under_way is not None:
        _under_way.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
