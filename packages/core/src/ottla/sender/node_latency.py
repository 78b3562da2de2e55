"""Which brokers have had records waiting for them too long (`partitioner.availability.timeout.ms`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable


class NodeDelays:
    """Since when each broker has had something to take and took nothing. For the I/O thread; `slow` for any."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.on_change: Callable[[], object] = lambda: None
        """Called when other brokers are slow than before."""
        self._waiting_since: dict[int, float] = {}
        self.slow: frozenset[int] = frozenset()

    def note(self, *, wanted: Iterable[int], served: Collection[int], now: float) -> None:
        """Brokers for which something is ready, and those of them that took it. A timeout of 0 means never."""
        if not self._timeout:
            return
        waiting = [node for node in wanted if node not in served]
        self._waiting_since = {node: self._waiting_since.get(node, now) for node in waiting}
        slow = frozenset(node for node, since in self._waiting_since.items() if now - since > self._timeout)
        if slow != self.slow:
            self.slow = slow
            self.on_change()
