"""The kind of socket for the conformance suite of this transport; `ottla plugins check` uses it, too.

It needs ottla-testkit, so no other module may import it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from ottla_testkit.conformance import PlainPeer, TransportConformance


class UnixConformance(TransportConformance):
    """All requirements for a transport."""

    settings: ClassVar[Mapping[str, Any]] = {"unix.path": "/run/kafka.sock"}

    def socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Return Unix sockets, like the relay's."""
        return socket.socketpair()

    @pytest.fixture
    def peer(self) -> type[PlainPeer]:
        return PlainPeer
