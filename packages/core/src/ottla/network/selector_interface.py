"""The interface between the network client and its I/O: a selector with real sockets, or a simulated network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from ottla.errors import NetworkError, OttlaError
from ottla.interfaces import Buffer, Target
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Address(ValueMethods):
    """The address of a broker, and the name that its certificate or principal must have."""

    host: str
    target: Target


class Selectable(Protocol):
    """Connections by node id. After each `poll`, the four properties have its events.

    All methods are for the I/O thread, except `wakeup` and `has_events`.
    """

    @property
    def connected(self) -> Sequence[int]:
        """Connections that became ready for requests."""

    @property
    def sent(self) -> Sequence[int]:
        """Connections whose send this `poll` finished writing."""

    @property
    def received(self) -> Sequence[tuple[int, memoryview]]:
        """Whole responses, without their size prefix; at most one per connection."""

    @property
    def disconnected(self) -> Mapping[int, OttlaError]:
        """Connections that ended, with the reason; their node ids may be used again."""

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        """The addresses to try for a broker, or None if they are not resolved yet.

        After None, call it again after the next `poll` that returns early. With *canonical*, each address
        has its own canonical name in place of *host*. Raises NameResolutionError; never returns an empty sequence.
        """

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        """Begin to connect; `poll` reports the result.

        Raises ConnectionFailedError when no socket can be made for it.
        """

    def established(self, node: int) -> bool:
        """Return whether the peer has accepted a connection; its handshake may still go on."""

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        """Send one framed request; the previous one must have been written.

        Returns True if it is completely written already; then `sent` will not report it.
        """

    def close(self, node: int, reason: NetworkError) -> None:
        """End a connection immediately; the next `poll` reports it with *reason*."""

    def rename(self, node: int, new: int) -> None:
        """Use another node id for a connection, which no connection has, once the events of a poll are handled."""

    def poll(self, timeout: float) -> None:
        """Move bytes, waiting at most *timeout* seconds for something to happen."""

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable while `poll` has events, or None if there is none."""

    @property
    def awaits_events(self) -> bool:
        """Return whether the next `poll` has nothing to do before the next event."""

    def has_events(self) -> bool:
        """Return whether there are events for `poll`. For any thread; False without a descriptor."""

    def wakeup(self) -> None:
        """End a waiting `poll`, or the next one, immediately. For any thread."""

    def shutdown(self, *, forked: bool = False) -> None:
        """Close all connections and the selector; it cannot be used afterwards.

        *forked*: in a forked child, whose parent goes on with the connections.
        """
