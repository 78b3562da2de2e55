"""A wait for metadata without a blocked thread."""

from __future__ import annotations

from collections.abc import Callable

from ottla.concurrency.locks import SignalSafeLock


class MetadataWait:
    """A wait for metadata of a topic, or of one *partition*. For any thread; created with the lock *changed* held."""

    __slots__ = ("_changed", "_notify", "partition", "ready", "topic")

    def __init__(self, changed: SignalSafeLock, topic: str, partition: int | None) -> None:
        self.topic = topic
        self.partition = partition
        self.ready = False
        """Whether metadata has changed, so that the caller should try again."""
        self._changed = changed
        self._notify: Callable[[], object] | None = None
        changed.add_waiter(self)

    def on_ready(self, callback: Callable[[], object]) -> None:
        """Call *callback* once the wait is ready, on any thread; immediately, on this thread, if it is ready now.

        The callback may run under locks of the producer: it must not call the producer, wait, or raise.
        `loop.call_soon_threadsafe` is such a function.
        """
        with self._changed:
            self._notify = callback
            ready = self.ready
        if ready:
            callback()

    def cancel(self) -> None:
        """End the wait. Harmless when repeated."""
        with self._changed:
            self._changed.remove_waiter(self)

    def set(self) -> None:
        """Make the wait ready. Under the lock."""
        self.ready = True
        if self._notify is not None:
            self._notify()
