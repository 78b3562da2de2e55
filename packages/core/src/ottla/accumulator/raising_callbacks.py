"""Which exceptions of delivery callbacks are logged. A callback with a fault raises for each record, on the I/O thread,
or for each table.

So there is one line with a traceback for each fault in half a minute, and it counts those that were left out. The last
ones are counted by a line at the end of a producer. They are for the process, not for a producer: the fault is in the
program. There is no lock, which a forked child might find taken; a count may be too low if two threads raise at the
same moment.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeAlias

from ottla.errors import counted
from ottla.errors.log_throttle import SILENCE_SECONDS

_FRAMES: Final = 8
"""The frames of a traceback by which faults differ; the first ones are those of the callback."""

_PLACES: Final = 3
"""The places that the line at the end of a producer names."""

_MAX_FAULTS: Final = 1_000
"""Faults that are remembered: code that is made at run time may have any number of file names."""

Fault: TypeAlias = tuple[type[BaseException] | None, bool, tuple[tuple[str, int], ...]]

_FORGOTTEN: Final[Fault] = (None, False, ())
"""All faults that are not remembered any more; no callback has it."""

_OWN: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
"""The folder of the functions that call callbacks."""


class RaisingCallbacks:
    """The faults of callbacks that were logged recently, by the places of their tracebacks."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent: dict[Fault, tuple[float, int]] = {}  # when the next line may come, and how many were left out
        self._next_summary = float("-inf")

    def line(self, *, failed: bool) -> str | None:
        """Return None if the exception that is handled now is left out of the log, else what its line ends with.

        *failed*: it is the callback of a record that failed.
        """
        kind, _error, traceback = sys.exc_info()
        fault, now = (kind, failed, _places(traceback)), self._clock()
        until, left_out = self._silent.get(fault, (now, 0))
        if now < until:
            self._silent[fault] = (until, left_out + 1)
            return None
        if len(self._silent) >= _MAX_FAULTS:
            forgotten = sum(count for _until, count in list(self._silent.values()))
            self._silent.clear()
            self._silent[_FORGOTTEN] = (now, forgotten)
        self._silent[fault] = (now + SILENCE_SECONDS, 0)
        return f"; {counted(left_out, 'more callback')} raised there since the last line" if left_out else ""

    def summary(self, *, at_exit: bool = False) -> str | None:
        """Return what a line at the end of a producer says of those that no line counts yet, or None.

        A program may make a producer for each of many requests, so this returns a text once in half a minute, and *at
        exit* for the rest.
        """
        now = self._clock()
        found = [(fault, count) for fault, (_until, count) in list(self._silent.items()) if count]
        if not found or (now < self._next_summary and not at_exit):
            return None
        self._next_summary = now + SILENCE_SECONDS
        for fault, count in found:
            until, left_out = self._silent.get(fault, (now, count))
            self._silent[fault] = (until, max(0, left_out - count))
        found.sort(key=lambda each: each[1], reverse=True)
        places = [f"{count} at {_text(fault)}" for fault, count in found[:_PLACES]]
        rest = [counted(len(found) - _PLACES, "other place")] if len(found) > _PLACES else []
        return f"{counted(sum(count for _fault, count in found), 'more callback')}: {', '.join(places + rest)}"

    def forget(self) -> None:
        """Log the next exception of each fault."""
        self._silent.clear()
        self._next_summary = float("-inf")


raising_callbacks: Final = RaisingCallbacks()
"""Those of this process."""


def _places(traceback: TracebackType | None) -> tuple[tuple[str, int], ...]:
    """The file and line of each of the first frames."""
    places: list[tuple[str, int]] = []
    while traceback is not None and len(places) < _FRAMES:
        places.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return tuple(places)


def _text(fault: Fault) -> str:
    """Where the callback was, and where the last of the first frames was, which may be in a library."""
    kind, _failed, places = fault
    if kind is None:
        return "places that are forgotten"
    of_callback = [place for place in places if not place[0].startswith(_OWN)] or places or [("?", 0)]
    first, last = (f"{file}:{line}" for file, line in (of_callback[0], of_callback[-1]))
    return f"{first} ({kind.__name__}{f' of {last}' if last != first else ''})"
