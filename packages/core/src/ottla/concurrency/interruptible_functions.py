"""Functions that a signal handler may interrupt, and what releases their locks when the handler has to wait.

They run for every record, so they are no deferred blocks of `ottla.concurrency.signals`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, Final

_BREAKABLE: Final[dict[CodeType, Callable[[Mapping[str, Any]], object]]] = {}


def allow_break_off(function: Callable[..., Any], break_off: Callable[[Mapping[str, Any]], object]) -> None:
    """Have *break_off* called with the local variables of *function* when a handler that interrupted it has to wait."""
    _BREAKABLE[function.__code__] = break_off  # every Python function has a code object


def break_off_interrupted() -> None:
    """Call `break_off` of interrupted functions before this thread waits, so that they release their locks.

    Only a signal handler or a finalizer can have interrupted such a function further out on this thread.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        break_off = _BREAKABLE.get(frame.f_code)
        if break_off is not None:
            break_off(frame.f_locals)
        frame = frame.f_back
