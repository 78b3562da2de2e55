"""Rounds in which records are completed, and what waits for their end, on each thread.

A record that a delivery callback sends is completed when that callback has returned, as by a real producer, whose
callbacks run on the thread that completes records. So callbacks do not nest, however many records they send in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    """The rounds of one thread: how many are open, one in the other, and what is called at the end of the outermost."""

    rounds = 0

    def __init__(self) -> None:
        self.postponed: dict[Callable[[], object], None] = {}


_thread = _Thread()


def call_at_end_of_round(function: Callable[[], object]) -> None:
    """Call a function once at the end of this thread's outermost round, which is open."""
    _thread.postponed[function] = None


@contextmanager
def completion_round() -> Iterator[None]:
    """A round; at its end, what was postponed in it is called, unless it is inside another one."""
    _thread.rounds += 1
    try:
        try:
            yield
        finally:
            # The round remains open, so what these calls postpone is called here, and not inside of them.
            while _thread.rounds == 1 and _thread.postponed:
                function = next(iter(_thread.postponed))
                del _thread.postponed[function]
                function()
    finally:
        _thread.rounds -= 1


@contextmanager
def longer_round(at_end: Callable[[Callable[[], object]], object]) -> Iterator[None]:
    """A round that goes on after this block: *at_end* is called with each function, to call it at the end."""
    _thread.rounds += 1
    try:
        yield
    finally:
        _thread.rounds -= 1
        if not _thread.rounds:
            postponed = list(_thread.postponed)
            _thread.postponed.clear()
            for function in postponed:
                at_end(function)
