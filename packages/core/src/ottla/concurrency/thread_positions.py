"""The place in the code that a thread executes, for errors and log lines about calls that do not return."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final

_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_PACKAGES: Final = ("site-packages", "dist-packages")
_OWN: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


def position_of(thread: int) -> str | None:
    """The place that a thread executes, or None if it has ended.

    Inside the standard library, in a lock or a socket for instance, also the place that has called it, unless that is
    Ottla's own.
    """
    frame = sys._current_frames().get(thread)
    if frame is None:
        return None
    caller: FrameType | None = frame
    while caller is not None and _in_library(caller.f_code.co_filename):
        caller = caller.f_back
    if caller is None or caller is frame or caller.f_code.co_filename.startswith(_OWN):
        return _place(frame)
    return f"{_place(frame)}, called from {_place(caller)}"


def _in_library(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    return file.startswith(_LIBRARY) and not file.removeprefix(_LIBRARY).startswith(_PACKAGES)


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
