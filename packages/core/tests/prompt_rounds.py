"""A round that completes a batch does not wait afterwards: the thread that runs the round may wait for that batch."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from own_io_thread import io_thread_of

from invariants import Violation
from ottla import Producer
from ottla_testkit.simulation import SimulatedNetwork


class PromptRounds:
    """Checks the rounds of a producer in a simulation, on each of its threads."""

    def __init__(self, producer: Producer, network: SimulatedNetwork) -> None:
        engine = producer._engine
        self._completed: Counter[int] = Counter()  # batches, by the thread that has completed them
        self._before: dict[int, int] = {}  # the same, when the thread's round began
        self.violation: Violation | None = None
        sender: Any = io_thread_of(engine)._sender
        completion: Any = producer._accumulator._completion
        selector: Any = network
        self._run_once, self._complete, self._poll = sender.run_once, completion.complete, selector.poll
        sender.run_once, completion.complete, selector.poll = self.run_once, self.complete, self.poll

    def run_once(self, *arguments: Any, **options: Any) -> Any:
        """Run a round."""
        thread = threading.get_ident()
        self._before[thread] = self._completed[thread]
        try:
            return self._run_once(*arguments, **options)
        finally:
            del self._before[thread]

    def complete(self, *arguments: Any, **options: Any) -> Any:
        """Complete a batch."""
        self._completed[threading.get_ident()] += 1
        return self._complete(*arguments, **options)

    def poll(self, timeout: float) -> Any:
        """Wait for events, as a part of a round or not."""
        thread = threading.get_ident()
        completed = self._completed[thread] - self._before.get(thread, self._completed[thread])
        if completed and timeout > 0 and self.violation is None:
            self.violation = Violation(f"a round that has completed {completed} batches waits for up to {timeout} s")
        return self._poll(timeout)

    def check(self) -> None:
        """Raise the first Violation."""
        if self.violation is not None:
            raise self.violation
