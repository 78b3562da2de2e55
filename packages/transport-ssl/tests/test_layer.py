"""One encrypted connection: what goes in comes out, nothing blocks, and every way to end has its own error."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ConnectionFailedError
from ottla.interfaces import Interest, Transport, TransportLayer
from ottla_transport_ssl import TlsLayer
from ottla_transport_ssl.tls_stream import AHEAD, gathered
from tls_peers import Peer, read, read_all, readable, shake, tcp_pair, transport, until

Connect = Callable[..., tuple[TlsLayer, Peer]]


@pytest.fixture
def connected(connect: Connect) -> tuple[TlsLayer, Peer]:
    """After the handshake."""
    layer, peer = connect()
    shake(layer, peer)
    return layer, peer


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_plugin_has_all_attributes_of_the_contract(connected: tuple[TlsLayer, Peer]) -> None:
    assert isinstance(connected[0], TransportLayer)


def test_names_are_resolved_as_usual() -> None:
    made = transport({})

    assert isinstance(made, Transport)
    assert made.targets("broker", 9093) is None


def test_bytes_pass_in_both_directions_in_either_tls_version(connect: Connect, version: str) -> None:
    layer, peer = connect({"ssl.enabled.protocols": version})
    shake(layer, peer)

    assert layer.write([b"one ", memoryview(b"two "), bytearray(b"three")]) == 13
    until(lambda: peer.got == b"one two three", peer.step)
    assert peer.tls.version() == version
    peer.say(b"four")
    assert read_all(layer, 4) == b"four"


def test_the_handshake_continues_with_any_number_of_bytes(connect: Connect, version: str) -> None:
    layer, peer = connect({"ssl.enabled.protocols": version})
    assert not layer.handshake()
    assert layer.interest() is Interest.READ
    shaken = False
    while not shaken:
        peer.step_without_sending()
        for byte in peer.take_outgoing():
            peer.sock.send(bytes([byte]))
            readable(layer._sock)
            shaken = layer.handshake()
    until(lambda: peer.ready, peer.step)

    assert layer.interest() is Interest.NONE


def test_the_server_name_is_sent_for_virtual_hosts(connect: Connect, server_context: ssl.SSLContext) -> None:
    asked: list[str | None] = []
    server_context.sni_callback = lambda _socket, name, _context: asked.append(name)

    shake(*connect(host="localhost"))
    shake(*connect(host="localhost."))
    shake(*connect(host="127.0.0.1"))

    assert asked == ["localhost", "localhost", None]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::1%lo"])
def test_a_certificate_may_be_for_an_ip_address(connect: Connect, host: str) -> None:
    shake(*connect(host=host))


def test_a_write_of_any_size_arrives_in_parts_chosen_by_the_layer(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    chunks = [chance.randbytes(size) for size in (1, 61, 3_000_000, 0, 17, 16_384, AHEAD, 1, 900_000)]
    wanted, left = b"".join(chunks), list(chunks)

    def write() -> None:
        taken = layer.write(left) if left else 0
        assert taken <= AHEAD
        while left and taken >= len(left[0]):
            taken -= len(left.pop(0))
        if taken:
            left[0] = left[0][taken:]

    until(lambda: len(peer.got) == len(wanted), write, layer.flush, peer.step)

    assert bytes(peer.got) == wanted


def test_a_full_socket_is_waited_for_without_blocking(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    written = 0
    while taken := layer.write([bytes(1_000_000)]):
        written += taken

    assert layer.write([b"more"]) == 0
    assert not layer.flush()
    assert layer.interest() is Interest.WRITE
    until(lambda: len(peer.got) == written, peer.step, layer.flush)
    assert layer.flush()
    assert layer.interest() is Interest.NONE


def test_flush_returns_true_only_if_nothing_is_buffered(connected: tuple[TlsLayer, Peer]) -> None:
    """Also when the socket took a part: it returns True for the last byte only."""
    layer, peer = connected
    layer._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
    written = 0
    while taken := layer.write([bytes(1_000_000)]):
        written += taken

    def take_a_little() -> None:
        peer.receive(50_000)

    def flush() -> None:
        if layer.flush():
            assert layer.interest() is Interest.NONE

    until(lambda: len(peer.got) == written, take_a_little, flush)


def test_writing_nothing_writes_nothing(connected: tuple[TlsLayer, Peer]) -> None:
    layer, _peer = connected

    assert layer.write([]) == 0
    assert layer.write([b"", b""]) == 0
    assert layer.flush()


def test_chunks_are_taken_in_order_up_to_the_limit() -> None:
    assert bytes(gathered([b"ab", b"cd", b"ef"], 5)) == b"abcde"
    assert bytes(gathered([b"abcdef", b"g"], 5)) == b"abcde"
    assert bytes(gathered([b"ab", b"cdefgh"], 5)) == b"abcde"
    assert bytes(gathered([b"ab", b"cde"], 5)) == b"abcde"
    assert bytes(gathered([b"ab"], 5)) == b"ab"


def test_a_large_chunk_is_encrypted_without_a_copy() -> None:
    chunk = bytes(AHEAD * 2)
    part = gathered([chunk, b"x"], AHEAD)

    assert isinstance(part, memoryview)
    assert part.obj is chunk


def test_decrypted_bytes_without_a_socket_event_are_announced(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    assert not layer.may_read()
    peer.say(b"abcdef")
    readable(layer._sock)

    assert read(layer, 2) == b"ab"
    assert layer.may_read()
    assert read(layer, 10) == b"cdef"
    assert not layer.may_read()
    assert read(layer) is None


def test_a_record_that_comes_byte_by_byte_is_read_when_it_is_complete(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    peer.tls.write(b"abc")
    *most, last = peer.take_outgoing()
    for byte in most:
        peer.sock.send(bytes([byte]))
        readable(layer._sock)
        assert read(layer) is None
    peer.sock.send(bytes([last]))
    readable(layer._sock)

    assert read(layer) == b"abc"


def test_many_records_in_one_packet_are_all_read(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    for number in range(100):
        peer.tls.write(b"%03d" % number)
    peer.push()

    assert read_all(layer, 300) == b"".join(b"%03d" % number for number in range(100))


def test_a_close_notify_and_a_bare_close_are_both_the_end(connect: Connect) -> None:
    for end in (Peer.say_goodbye, lambda peer: peer.sock.shutdown(socket.SHUT_WR)):
        layer, peer = connect()
        shake(layer, peer)
        peer.say(b"last")
        end(peer)

        assert read_all(layer, 4) == b"last"
        readable(layer._sock)
        assert layer.read_into(memoryview(bytearray(1))) == 0


def test_our_close_notify_reaches_the_peer(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    layer.close()
    layer.close()

    until(lambda: peer.ended, peer.step)
    assert peer.said_goodbye


@pytest.mark.parametrize("bytes_first", [0, 1, 5, 100, 500])
def test_close_is_possible_at_any_moment(connect: Connect, bytes_first: int) -> None:
    layer, peer = connect()
    layer.handshake()
    readable(peer.sock)
    peer.step_without_sending()
    peer.sock.send(peer.take_outgoing()[:bytes_first])
    layer.handshake()

    layer.close()
    layer.close()


def test_a_reset_after_the_handshake_is_an_oserror(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    _reset(peer.sock)
    readable(layer._sock)

    with pytest.raises(ConnectionError):
        until(lambda: False, lambda: read(layer))
    with pytest.raises(ConnectionError):
        until(lambda: False, lambda: layer.write([b"x"]))
    layer.close()


def test_bytes_changed_on_the_network_end_the_connection(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    peer.tls.write(b"abc")
    record = bytearray(peer.take_outgoing())
    record[-1] ^= 1
    peer.sock.send(record)
    readable(layer._sock)

    # The words of OpenSSL before and since 3.2
    with pytest.raises(ConnectionFailedError, match=r"localhost:9093 broke: .*(bad record mac|record layer failure)"):
        read(layer)


def test_garbage_after_the_handshake_ends_the_connection(connected: tuple[TlsLayer, Peer]) -> None:
    layer, peer = connected
    peer.sock.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    readable(layer._sock)

    with pytest.raises(ConnectionFailedError, match="localhost:9093 broke"):
        until(lambda: False, lambda: read(layer))


def test_every_connection_verifies_the_server_certificate_again(
    trusting: dict[str, Any], server_context: ssl.SSLContext
) -> None:
    """A resumed session would not be: neither dates nor revocation lists count in it."""
    server_context.num_tickets = 2
    made = transport(trusting)
    for _ in range(3):
        ours, theirs = tcp_pair()
        layer, peer = made.open(ours, "localhost", 9093), Peer(theirs, server_context)
        assert isinstance(layer, TlsLayer)
        shake(layer, peer)
        peer.say(b"with tickets before it")
        assert read_all(layer, 22)
        layer.close()
        theirs.close()

    assert server_context.session_stats()["hits"] == 0


def test_session_tickets_are_not_data(connect: Connect, server_context: ssl.SSLContext) -> None:
    server_context.num_tickets = 8
    layer, peer = connect({"ssl.enabled.protocols": "TLSv1.3"})
    shake(layer, peer)
    readable(layer._sock)

    assert read(layer) is None
    assert not layer.may_read()
    peer.say(b"abc")
    assert read_all(layer, 3) == b"abc"


def _reset(sock: socket.socket) -> None:
    """Close with a reset in place of an end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
