"""Slow brokers: those for which records wait longer than `partitioner.availability.timeout.ms`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable


class NodeLatencyStats:
    """Measures how long brokers have had ready batches and taken none. For the I/O thread; `slow` is for any thread."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.on_change: Callable[[], object] = lambda: None
        """Called when the set of slow brokers has changed."""
        self._waiting_since: dict[int, float] = {}
        self.slow: frozenset[int] = frozenset()

    def note(self, *, wanted: Iterable[int], served: Collection[int], now: float) -> None:
        """Note the brokers with ready batches, *wanted*, and those of them that can take some, *served*.

        With a timeout of 0 no broker is slow.
        """
        if not self._timeout:
            return
        waiting = [node for node in wanted if node not in served]
        self._waiting_since = {node: self._waiting_since.get(node, now) for node in waiting}
        slow = frozenset(node for node, since in self._waiting_since.items() if now - since > self._timeout)
        if slow != self.slow:
            self.slow = slow
            self.on_change()
