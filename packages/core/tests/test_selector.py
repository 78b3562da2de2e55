"""The selector on real sockets of this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from ottla.errors import ConnectionFailedError
from ottla.interfaces import Interest, Target, TransportLayer
from ottla.network.selector import Selector
from ottla.network.selector_interface import Address
from ottla.plugins.transports import SocketLayer
from ottla_transport_plaintext import PlaintextTransport
from real_selector import HANG_GUARD, Events, Shutdown, Waits, connect, make_selector


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def selector() -> Iterator[Selector]:
    made = make_selector()
    yield made
    made.shutdown()


@pytest.mark.rule("selector.connect.reported")
def test_a_connection_is_reported_once_it_is_ready(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)

    assert events.connected == [1]
    peer.close()


@pytest.mark.rule("selector.send.partial")
def test_a_large_send_is_written_completely_to_a_slow_reader(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    chunks = [bytes([n]) * 300_000 for n in range(10)]
    read = bytearray()

    def drain() -> None:
        while len(read) < 3_000_000 and (piece := peer.recv(4_096)):
            read.extend(piece)

    reader = threading.Thread(target=drain)
    reader.start()
    events.send(1, chunks)
    events.until(lambda: events.sent)
    reader.join(HANG_GUARD)
    peer.close()

    assert events.sent == [1]
    assert bytes(read) == b"".join(chunks)


@pytest.mark.rule("selector.receive.one")
def test_responses_come_one_per_poll_and_in_order(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)

    peer.sendall(b"\0\0\0\3one\0\0\0\3two")
    events.until(lambda: len(events.received) == 2)
    peer.close()

    assert events.received == [(1, b"one"), (1, b"two")]


@pytest.mark.rule("selector.receive.whole")
def test_a_response_in_single_bytes_is_put_together(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    for byte in b"\0\0\0\5hello":
        peer.sendall(bytes([byte]))
        selector.poll(0.01)
        events.received += [(node, bytes(frame)) for node, frame in selector.received]
    events.until(lambda: events.received)
    peer.close()

    assert events.received == [(1, b"hello")]


@pytest.mark.rule("selector.close.arrived")
def test_data_that_arrived_before_a_close_is_still_read(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)

    peer.sendall(b"\0\0\0\4last")
    peer.close()
    events.until(lambda: events.disconnected)

    assert events.received == [(1, b"last")]
    assert isinstance(events.disconnected[1], ConnectionFailedError)


@pytest.mark.rule("selector.connect.reported")
def test_a_refused_connection_names_the_address(selector: Selector, listener: socket.socket) -> None:
    host, port = listener.getsockname()
    listener.close()
    selector.connect(1, Target(socket.AF_INET, (host, port)), "kafka.example", port)
    events = Events(selector)

    events.until(lambda: events.disconnected)

    assert f"kafka.example:{port} (127.0.0.1): ECONNREFUSED" in str(events.disconnected[1])


@pytest.mark.rule("selector.close.reset")
def test_a_reset_ends_the_connection_with_its_cause(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()

    events.until(lambda: events.disconnected)

    assert isinstance(events.disconnected[1], ConnectionFailedError)


@pytest.mark.rule("selector.close.wanted")
def test_a_closed_connection_is_reported_by_the_next_poll_with_a_reason(
    selector: Selector, listener: socket.socket
) -> None:
    events, peer = connect(selector, listener)
    reason = ConnectionFailedError("as the test asked")

    selector.close(1, reason)
    events.until(lambda: events.disconnected)
    peer.close()

    assert events.disconnected == {1: reason}


@pytest.mark.rule("selector.wakeup")
def test_wakeup_ends_a_waiting_poll(selector: Selector) -> None:
    waits = Waits(selector)
    waker = threading.Thread(target=selector.wakeup)
    waker.start()

    selector.poll(HANG_GUARD)
    waker.join()

    assert waits.ended == [True]


@pytest.mark.rule("selector.wakeup")
def test_a_wakeup_before_the_poll_is_not_lost(selector: Selector) -> None:
    waits = Waits(selector)
    selector.wakeup()
    selector.wakeup()

    selector.poll(HANG_GUARD)

    assert waits.ended == [True]


@pytest.mark.rule("selector.transport.fault")
def test_a_transport_that_raises_ends_only_its_connection(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
            raise ZeroDivisionError("a fault in a plugin")

    selector = make_selector(transport=Broken())
    with contextlib.closing(Shutdown(selector)):
        host, port = listener.getsockname()
        selector.connect(1, Target(socket.AF_INET, (host, port)), host, port)
        events = Events(selector)
        events.until(lambda: events.disconnected)

    assert "ZeroDivisionError: a fault in a plugin" in str(events.disconnected[1])
    assert "failed on the connection to 127.0.0.1:" in caplog.text


@pytest.mark.rule("selector.receive.held")
def test_bytes_that_the_layer_holds_are_read_without_the_socket(listener: socket.socket) -> None:
    """As in TLS: one record on the wire may hold two answers."""

    class Holding(SocketLayer):
        held = b""

        def read_into(self, buffer: memoryview) -> int | None:
            if not self.held:
                received = bytearray(65_536)
                size = super().read_into(memoryview(received))
                if not size:
                    return size
                self.held = bytes(received[:size])
            taken = self.held[: len(buffer)]
            buffer[: len(taken)] = taken
            self.held = self.held[len(taken) :]
            return len(taken)

        def may_read(self) -> bool:
            return bool(self.held)

    class HoldingTransport(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
            return Holding(sock)

    selector = make_selector(transport=HoldingTransport())
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        peer.sendall(b"\0\0\0\3one\0\0\0\3two")
        events.until(lambda: len(events.received) == 2)
        peer.close()

    assert [frame for _node, frame in events.received] == [b"one", b"two"]


@pytest.mark.rule("selector.names.transport")
def test_the_transport_may_return_its_own_targets() -> None:
    class Tunnel(PlaintextTransport):
        def targets(self, host: str, port: int) -> Sequence[Target] | None:
            return [Target(socket.AF_UNIX, f"/run/{host}")]

    selector = make_selector(transport=Tunnel())
    with contextlib.closing(Shutdown(selector)):
        assert selector.resolve("broker", 9092) == [
            Address(host="broker", target=Target(socket.AF_UNIX, "/run/broker"))
        ]


@pytest.mark.rule("selector.names.aside")
def test_a_name_is_looked_up_on_another_thread_and_wakes_the_poll(selector: Selector) -> None:
    waits = Waits(selector)
    assert selector.resolve("localhost", 9092) is None

    selector.poll(HANG_GUARD)
    assert waits.ended == [True]
    addresses = selector.resolve("localhost", 9092)

    assert addresses
    assert {address.target.sockaddr[0] for address in addresses} <= {"127.0.0.1", "::1"}


def test_the_layer_of_the_plaintext_transport_needs_no_events_itself() -> None:
    left, right = socket.socketpair()
    layer = SocketLayer(left)

    assert layer.handshake()
    assert layer.interest() is Interest.NONE
    layer.close()
    right.close()
