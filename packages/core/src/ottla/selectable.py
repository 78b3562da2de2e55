"""What the network client asks of whatever moves its bytes: a selector with real sockets, or a simulated network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ottla.errors import NetworkError, OttlaError
from ottla.interfaces import Buffer, Target


class Selectable(Protocol):
    """Connections by node id. After each `poll`, the four properties tell what happened in it.

    All methods are for the I/O thread, except `wakeup`.
    """

    @property
    def connected(self) -> Sequence[int]:
        """Connections that became ready for requests."""

    @property
    def sent(self) -> Sequence[int]:
        """Connections whose send was completely written."""

    @property
    def received(self) -> Sequence[tuple[int, memoryview]]:
        """Whole answers, without their size prefix; at most one of a connection."""

    @property
    def disconnected(self) -> Mapping[int, OttlaError]:
        """Connections that ended, with the reason; they are forgotten."""

    def resolve(self, host: str, port: int) -> Sequence[Target]:
        """The addresses to try for a broker. Raises NameResolutionFailed. May take as long as the resolver does."""

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        """Begin to connect; what comes of it is told by `poll`."""

    def send(self, node: int, chunks: Sequence[Buffer]) -> None:
        """Send one framed request; the one before it must have been written."""

    def close(self, node: int, reason: NetworkError) -> None:
        """End a connection at once; the next `poll` tells of it with *reason*."""

    def poll(self, timeout: float) -> None:
        """Move bytes, waiting at most *timeout* seconds for something to happen."""

    def wakeup(self) -> None:
        """End a `poll` that waits, or the next one, at once. For any thread."""

    def shutdown(self) -> None:
        """Close everything."""
