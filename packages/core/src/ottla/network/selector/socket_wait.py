"""Waiting for sockets without rounding the time up: Python's epoll takes whole milliseconds only.

A linger of 5 ms would last half a millisecond longer, a tenth of a record's latency near a broker.
"""

from __future__ import annotations

import select
import selectors
import sys
from collections.abc import Callable
from typing import Final

MILLISECOND: Final = 0.001

LONG: Final = 0.1
"""Seconds of a wait from which on a millisecond makes no difference."""

_SELECT_LIMIT: Final = 1_024
"""FD_SETSIZE: `select` accepts no higher descriptor."""


class Watch:
    """A `selectors.DefaultSelector` whose short waits end on time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self.register = self._selector.register
        self.modify = self._selector.modify
        self.unregister = self._selector.unregister
        self.close = self._selector.close
        self._descriptor = _descriptor(self._selector)

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable while there are events, or None if this system has none."""
        fileno: Callable[[], int] | None = getattr(self._selector, "fileno", None)
        return None if fileno is None else fileno()

    def has_events(self) -> bool:
        """Return whether `select` would return at once. For any thread; False without a descriptor."""
        descriptor = self.descriptor
        if sys.platform == "win32" or descriptor is None:
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def select(self, timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
        """The events, as soon as there are any, or after *timeout* seconds."""
        if self._descriptor is None or not 0 < timeout < LONG:
            return self._selector.select(timeout)
        end = self._clock() + timeout
        whole = int(timeout / MILLISECOND)
        if whole:
            events = self._selector.select((whole - 0.5) * MILLISECOND)  # rounded up to whole milliseconds
            if events:
                return events
        rest = min(end - self._clock(), MILLISECOND)
        if rest <= 0 or not select.select([self._descriptor], (), (), rest)[0]:
            return []
        return self._selector.select(0)


def _descriptor(selector: selectors.BaseSelector) -> int | None:
    """A descriptor that becomes readable with any event, if the selector rounds its timeout; else None."""
    epoll = getattr(selectors, "EpollSelector", None)  # kqueue takes nanoseconds
    if epoll is None or not isinstance(selector, epoll):
        return None
    descriptor = int(selector.fileno())
    return descriptor if descriptor < _SELECT_LIMIT else None
