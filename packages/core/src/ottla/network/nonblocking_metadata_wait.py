"""A wait for metadata without a blocked thread."""

from __future__ import annotations

from collections.abc import Callable

from ottla.concurrency.locks import SignalSafeLock


class MetadataWait:
    """A wait for a topic, or for a *partition* of it. For any thread; created under the lock that updates notify."""

    __slots__ = ("_changed", "_notify", "partition", "ready", "topic")

    def __init__(self, changed: SignalSafeLock, topic: str, partition: int | None) -> None:
        self.topic = topic
        self.partition = partition
        self.ready = False
        """Whether metadata has changed: it is worth to try again."""
        self._changed = changed
        self._notify: Callable[[], object] | None = None
        changed.add_waiter(self)

    def on_ready(self, callback: Callable[[], object]) -> None:
        """Call *callback* once it is ready, from any thread; immediately, if it is ready now.

        The callback may run under locks of the producer: it must not call the producer, wait, or raise.
        `loop.call_soon_threadsafe` is such a function.
        """
        with self._changed:
            self._notify = callback
            ready = self.ready
        if ready:
            callback()

    def cancel(self) -> None:
        """Wait no longer. Harmless when repeated."""
        with self._changed:
            self._changed.remove_waiter(self)

    def set(self) -> None:
        """Make it ready. Under the lock."""
        self.ready = True
        if self._notify is not None:
            self._notify()
