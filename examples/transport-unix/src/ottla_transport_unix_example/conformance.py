"""What the suite needs to know of this transport, also for `ottla plugins check`: which kind of socket it gets.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from ottla_testkit.conformance import PlainPeer, TransportConformance


class UnixConformance(TransportConformance):
    """Every promise of a transport."""

    settings: ClassVar[Mapping[str, Any]] = {"unix.path": "/run/kafka.sock"}

    def socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """As the relay's."""
        return socket.socketpair()

    @pytest.fixture
    def peer(self) -> type[PlainPeer]:
        return PlainPeer
