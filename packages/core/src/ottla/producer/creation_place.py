"""The place in the program that made a producer, for log lines about it."""

from __future__ import annotations

import sys
from typing import Final

_SKIPPED: Final = ("ottla", "ottla_opentelemetry")


def creation_place() -> str:
    """File and line of the innermost call that comes from outside of Ottla's core, and of what instruments it."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED:
        if frame.f_back is None:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
