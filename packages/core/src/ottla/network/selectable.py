"""What the network client asks of whatever moves its bytes: a selector with real sockets, or a simulated network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from ottla.errors import NetworkError, OttlaError
from ottla.interfaces import Buffer, Target


@attrs.frozen(kw_only=True)
class Address:
    """Where a broker can be reached, and the name that its certificate or principal should have there."""

    host: str
    target: Target


class Selectable(Protocol):
    """Connections by node id. After each `poll`, the four properties tell what happened in it.

    All methods are for the I/O thread, except `wakeup`.
    """

    @property
    def connected(self) -> Sequence[int]:
        """Connections that became ready for requests."""

    @property
    def sent(self) -> Sequence[int]:
        """Connections whose send was completely written by this `poll`."""

    @property
    def received(self) -> Sequence[tuple[int, memoryview]]:
        """Whole answers, without their size prefix; at most one of a connection."""

    @property
    def disconnected(self) -> Mapping[int, OttlaError]:
        """Connections that ended, with the reason; they are forgotten."""

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        """The addresses to try for a broker; None: not known yet, ask again after the next `poll` that returns early.

        *canonical* gives each address its own name. Raises NameResolutionError, rather than give none.
        """

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        """Begin to connect; what comes of it is told by `poll`.

        Raises ConnectionFailedError when there is no socket for it.
        """

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        """Send one framed request; the one before it must have been written.

        True: it is completely written already, and `sent` will not tell of it.
        """

    def close(self, node: int, reason: NetworkError) -> None:
        """End a connection at once; the next `poll` tells of it with *reason*."""

    def poll(self, timeout: float) -> None:
        """Move bytes, waiting at most *timeout* seconds for something to happen."""

    def wakeup(self) -> None:
        """End a `poll` that waits, or the next one, at once. For any thread."""

    def shutdown(self) -> None:
        """Close everything."""
