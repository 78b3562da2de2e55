"""A signal at every step of a call at which Python runs handlers.

The signal comes as from outside: it is noted between two instructions, and Python runs its handler where it looks for
one. A trace function in Python could not do that, for handlers would run inside it.
"""

from __future__ import annotations

import ctypes
import dis
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

if not hasattr(ctypes, "pythonapi"):
    pytest.skip("only CPython notes a signal between two chosen instructions", allow_module_level=True)

_interrupt: Final = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object, ctypes.py_object)(
    ("PyErr_SetInterrupt", ctypes.pythonapi)
)
"""In C from end to end: SIGINT has come, for whatever it is called with."""

_LOOKS: Final = ("CALL", "BACKWARD", "WITH", "FOR_ITER", "STORE_ATTR")
_STEPS: Final = frozenset(number for name, number in dis.opmap.items() if any(part in name for part in _LOOKS))


Handler = Callable[[int, FrameType | None], object]


class Interruption:
    """SIGINT when a call on the main thread comes to its step *number*; `came`: it had so many."""

    def __init__(self, number: int, handler: Handler) -> None:
        self._left = number
        self._handler = handler
        self._frame: FrameType | None = None
        self.came = False
        self.where = ""

    def during(self, call: Callable[[], object]) -> object:
        """The call's result."""
        trace, usual = sys.gettrace(), signal.signal(signal.SIGINT, self._handle)
        function = self._trace  # the reference matters: see tracing.py
        sys.settrace(function)
        try:
            try:
                return call()
            finally:
                sys.settrace(trace)
        finally:  # of its own: a signal at the last step of the call may take effect in the one before
            signal.signal(signal.SIGINT, usual)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if self._frame is not None or "ottla" not in frame.f_code.co_filename or self._finalizing(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] in _STEPS:
            if self._left == 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
                self._frame = frame
                return _interrupt  # before the next instruction of this frame, and each that follows
            self._left -= 1
        return self._trace

    def _finalizing(self, frame: FrameType) -> bool:
        """Whether a finalizer has made this call. Python prints what a handler raises there, and the call goes on."""
        calls: FrameType | None = frame
        while calls is not None and calls.f_code.co_name != "__del__":
            calls = calls.f_back
        return calls is not None

    def _handle(self, number: int, frame: FrameType | None) -> object:
        sys.settrace(None)
        assert self._frame is not None
        self._frame.f_trace = None
        self.came = True
        return self._handler(number, frame)


def free(lock: Any) -> bool:
    """Whether another thread may take a lock, soon."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(timeout=5))
        if taken[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    return taken == [True]
