"""Pauses for connections whose transport layer asks for events and makes no use of them.

If a layer watches a socket but neither reads nor writes it, the socket reports its event again at once: the I/O thread
would keep a processor busy, without any error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import attrs

from ottla.errors.plugin_origin import PluginOrigin
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)

MAX_UNUSED: Final = 1_000
"""Events in a row without a byte, after which a connection is paused.

A TLS record that arrives or leaves in small pieces causes some hundred.
"""

AGAIN: Final = 10
"""The same number for a connection that was paused before."""

PAUSE: Final = 0.05
"""Seconds until a paused connection is continued."""


@attrs.define(eq=False, repr=False)
class EventUse:
    """The events of a connection since bytes were last moved."""

    moved: int = 0
    unused: int = 0
    paused: bool = False  # at any time

    def count(self, moved: int) -> bool:
        """Note an event after which *moved* bytes were moved in all. Return whether too many events have moved none."""
        if moved != self.moved:
            self.moved = moved
            self.unused = MAX_UNUSED - AGAIN if self.paused else 0
            return False
        self.unused += 1
        return self.unused >= MAX_UNUSED


C = TypeVar("C")


class EventPauses(Generic[C]):
    """The paused connections. For the I/O thread."""

    def __init__(self, clock: Callable[[], float], origin: PluginOrigin) -> None:
        self._clock = clock
        self._origin = origin
        self._until: dict[C, float] = {}

    def begin(self, connection: C, use: EventUse, peer: str) -> None:
        """Pause a connection; the first pause is logged."""
        self._until[connection] = self._clock() + PAUSE
        if use.paused:
            return
        use.paused = True
        logger.warning(
            "the %s asks for events on the connection to %s and makes no use of them, by its interest, flush or "
            "read_into; from now on it gets one every %d ms, which delays responses; %s",
            self._origin.name,
            peer,
            PAUSE * 1000,
            self._origin.remedy,
        )

    def end(self, connection: C) -> None:
        """Forget a connection that has ended."""
        self._until.pop(connection, None)

    def shortened(self, timeout: float) -> float:
        """The time-out of a wait that must not miss the end of a pause."""
        if not self._until:
            return timeout
        return min(timeout, max(0.0, min(self._until.values()) - self._clock()))

    def over(self) -> Iterator[C]:
        """Yield the connections whose pause is over, and forget them."""
        if self._until:
            now = self._clock()
            for connection in [each for each, until in self._until.items() if until <= now]:
                del self._until[connection]
                yield connection
