"""Calls of a plugin by several threads whose order a seed decides: threads change between any two lines of the plugin.

One thread runs at a time. A thread that waits for another one, at a lock for instance, loses its turn after a moment;
only then does the order depend on the machine. Compiled code is not interrupted.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ottla_testkit.conformance.harness.checked_layer import fail, sentence_of

_FOLDER: Final = str(Path(__file__).parent.parent)
_MOMENT: Final = 0.02
_PROBABILITY: Final = 0.3
"""Probability that another thread continues after a line."""
_SCHEDULES: Final = 10
"""One finds a variable that two lines share in about two of three runs: much of a call is lines of libraries."""


def check_orders(works: Sequence[Callable[[], object]], remedy: str) -> None:
    """Fail if one of these, which run at once, fails in one of some orders."""
    for seed in range(_SCHEDULES):
        error = Schedule(seed).run(works)
        if error is not None:
            fail(
                f"it is not safe for threads: when they change between two of its lines, {sentence_of(error)} "
                f"(order {seed}, the same each time unless one waits for another); {remedy}",
                error,
            )


class Schedule:
    """An order of the steps of some threads."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._running: int | None = None
        self._expected = 0
        """Threads that have not ended: when all of them wait, one goes on."""
        self._turns = 0

    def run(self, works: Sequence[Callable[[], object]]) -> BaseException | None:
        """Run all of these to their end; return the first error."""
        errors: list[BaseException] = []
        self._expected = len(works)
        # Without it, the first thread would go on alone for as long as a busy machine needs to start the others.
        all_started = threading.Barrier(len(works))

        def run(number: int, work: Callable[[], object]) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):  # the machine has no more threads
                all_started.wait()
            if all_started.broken:
                return
            self._wait_for_turn(number)
            sys.settrace(lambda frame, event, _argument: self._trace(number, frame, event))
            try:
                work()
            except BaseException as error:
                errors.append(error)
            finally:
                sys.settrace(None)
                self._pass_on(number, ends=True)

        threads = [
            threading.Thread(target=run, args=(number, work), name="conformance-schedule", daemon=True)
            for number, work in enumerate(works)
        ]
        try:
            for thread in threads:
                thread.start()
        except BaseException:
            all_started.abort()
            raise
        for thread in threads:
            thread.join()
        return errors[0] if errors else None

    def _trace(self, number: int, frame: FrameType, event: str) -> Any:
        """Trace each line of the plugin, and none of the suite."""
        if frame.f_code.co_filename.startswith((_FOLDER, threading.__file__)):
            return None
        if event == "line" and self._chance.random() < _PROBABILITY:
            self._pass_on(number)
            self._wait_for_turn(number)
        return lambda inner, later, _argument: self._trace(number, inner, later)

    def _pass_on(self, number: int, *, ends: bool = False) -> None:
        with self._changed:
            self._expected -= ends
            if self._running == number or ends:
                self._running = self._chance.choice(sorted(self._waiting)) if self._waiting else None
                self._turns += 1
                self._changed.notify_all()

    def _wait_for_turn(self, number: int) -> None:
        with self._changed:
            self._waiting.append(number)
            if self._running is None and len(self._waiting) == self._expected:
                self._running = self._chance.choice(sorted(self._waiting))
                self._changed.notify_all()
            while self._running != number:
                turns = self._turns
                if not self._changed.wait(_MOMENT) and turns == self._turns:
                    self._running = number  # the other one waits, perhaps for a lock that this thread holds
                    self._turns += 1
            self._waiting.remove(number)
