"""Calls of one function for several items in parallel, each on its own thread, with a common deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.doctor.bounds import Bounds

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R],
    things: Sequence[T],
    *,
    bounds: Bounds,
    discard: Callable[[R], object] = lambda _result: None,
) -> Sequence[R | None]:
    """The results in order; None for an item that was not done at the deadline: its thread is abandoned.

    *work* has its own deadlines and raises nothing. *discard* is called with a result that comes after the deadline, in
    the abandoned thread, to close what the result holds. An item for which the system has no thread is done by the
    caller's.
    """
    results: list[R | None] = [None] * len(things)
    over = False
    lock = threading.Lock()

    def store(position: int, thing: T) -> None:
        result = work(thing)
        with lock:
            if not over:
                results[position] = result
                return
        discard(result)

    threads = []
    for position, thing in enumerate(things):
        thread = threading.Thread(target=store, args=(position, thing), name="ottla-doctor", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # of a limit, such as that of a container
            store(position, thing)
        else:
            threads.append(thread)
    for thread in threads:
        thread.join(max(bounds.ends_at - bounds.clock(), 0.0))
    with lock:
        over = True
    return tuple(results)
