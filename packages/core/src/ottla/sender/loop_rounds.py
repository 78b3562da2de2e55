"""Rounds on an event loop: when they fit there, and what they need of the producer's network.

A round never waits on a loop. It has to be short, because other tasks wait for it. So no connection may be in its
handshake, which may compute for long, and few records may be queued, which are encoded and compressed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import attrs

MAX_QUEUED_BYTES: Final = 128 * 1024
"""The most bytes of queued and sent records with which rounds fit an event loop: they take less than a millisecond."""


class Network(Protocol):
    """The part of the producer's network that rounds on a loop need."""

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable while there are events, or None if this system has none."""

    def has_events(self) -> bool:
        """Return whether there are events. For any thread."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoopRounds:
    """The producer of rounds on a loop.

    *run*: a round that does not wait, with the time, and with whether it may skip the poll; it returns True if it has,
    because nothing is to be done before the next event. *awaits_events*: nothing is to be done before the next event;
    only a round changes that, so this is for the thread that runs the rounds, or while none does. *queued_bytes*: the
    memory of records that are queued or in flight. *due_at*: the time of the next round without an event.
    """

    run: Callable[[float, bool], bool]
    network: Network
    awaits_events: Callable[[], bool]
    queued_bytes: Callable[[], int]
    due_at: Callable[[], float]

    def few_bytes(self) -> bool:
        """Return whether so few bytes are queued and in flight that the next round is a short one."""
        return self.queued_bytes() <= MAX_QUEUED_BYTES
