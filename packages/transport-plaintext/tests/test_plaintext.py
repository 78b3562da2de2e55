"""The transport that adds nothing: what goes in comes out, and nothing ever blocks."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ottla.interfaces import Interest, Transport, TransportLayer
from ottla.plugins.registry import Registry
from ottla.plugins.transports import SocketLayer
from ottla.plugins.transports.socket_layer import MAX_CHUNKS
from ottla_transport_plaintext import PlaintextTransport


@pytest.fixture
def pair() -> Iterator[tuple[SocketLayer, socket.socket]]:
    """A layer, and the socket at the other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    layer = SocketLayer(ours)
    yield layer, theirs
    layer.close()
    theirs.close()


def test_the_plugin_is_found_by_its_security_protocol_name() -> None:
    plugin = Registry().plugin("transport", "plaintext")

    assert plugin.distribution == "ottla-transport-plaintext"
    assert isinstance(plugin.create({}, inner=None), PlaintextTransport)


def test_the_plugin_has_all_attributes_of_the_contract() -> None:
    ours, theirs = socket.socketpair()
    transport = PlaintextTransport()
    layer = transport.open(ours, "broker", 9092)

    assert isinstance(transport, Transport)
    assert isinstance(layer, TransportLayer)
    layer.close()
    theirs.close()


def test_names_are_resolved_as_usual() -> None:
    assert PlaintextTransport().targets("broker", 9092) is None


def test_it_is_ready_at_once_and_needs_no_events_itself(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, _theirs = pair

    assert layer.handshake()
    assert layer.interest() is Interest.NONE
    assert layer.flush()
    assert not layer.may_read()


def test_chunks_are_sent_in_order_in_one_call(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair

    assert layer.write([b"one ", memoryview(b"two "), bytearray(b"three")]) == 13
    assert theirs.recv(100) == b"one two three"


def test_more_chunks_than_one_call_takes_are_sent_in_several(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair
    chunks = [b"x"] * (MAX_CHUNKS + 10)

    assert layer.write(chunks) == MAX_CHUNKS
    assert layer.write(chunks[MAX_CHUNKS:]) == 10
    assert len(theirs.recv(10_000)) == MAX_CHUNKS + 10


def test_a_full_socket_takes_nothing_and_does_not_block(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair
    written = 0
    while taken := layer.write([bytes(100_000)]):
        written += taken

    assert layer.write([b"more"]) == 0
    received = 0
    while received < written:
        received += len(theirs.recv(1_000_000))
    assert layer.write([b"more"]) == 4


def test_reading_distinguishes_no_data_yet_from_closed(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair
    buffer = memoryview(bytearray(10))

    assert layer.read_into(buffer) is None
    theirs.sendall(b"abc")
    assert layer.read_into(buffer) == 3
    assert bytes(buffer[:3]) == b"abc"
    theirs.close()
    assert layer.read_into(buffer) == 0


def test_a_reset_is_an_oserror(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair
    theirs.close()

    with pytest.raises(OSError, match=r"[Bb]roken pipe|reset"):
        layer.write([b"too late"])


def test_close_reaches_the_peer_and_may_be_repeated(pair: tuple[SocketLayer, socket.socket]) -> None:
    layer, theirs = pair

    layer.close()
    layer.close()

    assert theirs.recv(1) == b""
