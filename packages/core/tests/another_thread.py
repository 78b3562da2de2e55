"""Something that another thread does just before a certain step of a function: a race, at each of its moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tracing import tracing


class Meanwhile:
    """Calls *act* before the *step*-th instruction of a *function*; `came`: it has so many."""

    def __init__(self, function: Callable[..., object], step: int, act: Callable[[], object]) -> None:
        self.came = False
        self._code = function.__code__
        self._left = step
        self._act = act

    @contextmanager
    def during(self) -> Iterator[None]:
        """The block in which the function is called."""
        with tracing(self._trace):
            yield

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code is not self._code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if not self._left:
                self.came = True
                self._act()
        return self._trace
