"""The tracing of other tests does not crash the interpreter, whatever the traced function raises and where."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest

from tracing import tracing

DESTRUCTOR = "ignore::pytest.PytestUnraisableExceptionWarning"


def called() -> None:
    """Called by a destructor alone."""


def other() -> None:
    """Makes a frame, and with it a garbage collection."""


class Garbage:
    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        called()


class Raising:
    def __init__(self) -> None:
        self.raised = 0

    def note(self, frame: FrameType, _event: str, _argument: Any) -> None:
        if frame.f_code is called.__code__:
            self.raised += 1
            raise ValueError


@pytest.mark.unmeasured
@pytest.mark.skipif(not hasattr(gc, "get_threshold"), reason="PyPy collects garbage when it likes")
@pytest.mark.filterwarnings(DESTRUCTOR)
def test_a_traced_function_may_raise_in_a_destructor() -> None:
    raised, thresholds = 0, gc.get_threshold()
    try:
        for _ in range(200):
            gc.disable()
            Garbage()
            gc.set_threshold(1, 1_000, 1_000)
            raising = Raising()
            with tracing(raising.note):
                gc.enable()
                other()
                other()
            raised += raising.raised
    finally:
        gc.enable()
        gc.set_threshold(*thresholds)
    # Newer versions collect garbage at other moments, at which a destructor ends no tracing.
    assert raised or sys.version_info >= (3, 12)
