"""The wait of `Delivery.result` and `Delivery.exception` in a simulation: other threads run, and simulated time passes.

A delivery measures its time-out with the real clock, and sleeps on a real lock, which would stop the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from ottla import Producer
from ottla.accumulator.batch import ProducerBatch
from ottla_testkit.simulation.threads import SimulatedThreads, StuckError

_PARTS_OF_A_SECOND: Final = 100
"""Time-outs are rounded up to hundredths of a second: what real time has passed of one must decide nothing."""


class SimulatedWait:
    """Stand for `run_while_waiting` of a batch: return when it has an outcome, or raise TimeoutError."""

    def __init__(self, threads: SimulatedThreads, run_rounds: Callable[[Any, float | None], object]) -> None:
        self._threads = threads
        self._run_rounds = run_rounds

    def __call__(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Run rounds as a real producer does, and let simulated time pass for the rest of the time-out."""
        threads = self._threads
        if threads.running is None:
            raise StuckError(
                f"the record for {batch} is pending, and no time passes here: call result() in a function that "
                "simulation.run gets"
            )
        limit = math.inf if timeout is None else math.ceil(timeout * _PARTS_OF_A_SECOND) / _PARTS_OF_A_SECOND
        until = threads.clock() + limit
        self._run_rounds(batch, None if timeout is None else limit)
        if not threads.wait(lambda: batch.outcome is not None, until, interruptible=True):
            raise TimeoutError(f"the record for {batch} is still pending after {limit:g} s")


def simulate_waits(producer: Producer, threads: SimulatedThreads) -> None:
    """Let the deliveries of a producer's records wait in the simulation."""
    accumulator = producer._accumulator
    for appender in (accumulator.appender, accumulator.keyed_appender):
        appender._run_while_waiting = SimulatedWait(threads, appender._run_while_waiting)
