"""Bytes leave a bytearray though the socket keeps what it was given: PyPy frees that in a later collection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ottla_testkit.conformance.harness.lower_layer import LowerLayer
from ottla_testkit.conformance.harness.peer import PlainPeer
from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.proxy.forwarder import Distance, End, Line

SENT = b"three apples"


class KeepingSocket(socket.socket):
    def send(self, data: Any, flags: int = 0, /) -> int:
        self.kept = data
        return super().send(data, flags)


@pytest.fixture
def ends() -> Iterator[tuple[KeepingSocket, socket.socket]]:
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname(), 10) as other:
        first, _ = server.accept()
        with KeepingSocket(fileno=first.detach()) as keeping:
            keeping.setblocking(False)
            yield keeping, other


def test_a_peer_sends_with_a_socket_that_keeps_views(ends: tuple[KeepingSocket, socket.socket]) -> None:
    keeping, other = ends
    peer = PlainPeer(keeping)
    peer.write(SENT)
    peer.advance()
    peer.advance()

    assert other.recv(100) == SENT


def test_a_lower_layer_sends_with_a_socket_that_keeps_views(ends: tuple[KeepingSocket, socket.socket]) -> None:
    keeping, other = ends
    layer = LowerLayer(keeping)
    while not layer.handshake():
        pass

    assert layer.write([SENT]) == len(SENT)
    assert layer.flush()
    assert other.recv(100) == SENT


def test_a_proxy_sends_with_a_socket_that_keeps_views(ends: tuple[KeepingSocket, socket.socket]) -> None:
    keeping, other = ends
    distance = Distance(round_trip=0, jitter=0)
    back = Line(distance, "back")
    end = End(keeping, out=Line(distance, "out"), back=back)
    back.put(SENT, now=0)
    end.write(now=1)

    assert back.arrived == b""
    assert other.recv(100) == SENT
