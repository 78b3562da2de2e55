"""Calls a function at each call in a block, as debuggers do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def tracing(function: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    """Trace the block on this thread.

    The reference of this frame matters: CPython 3.11 makes a frame object before it calls *function*, a garbage
    collection may come with it, and if *function* raises in a destructor that is called then, tracing ends, and what
    the first call then calls would have been freed.
    """
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)
