"""Ends of the selector's connections: by the peer at any byte, a failed write, a fault, or by us."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
from collections.abc import Callable, Iterator, Sequence

import pytest

from ottla.errors import ConnectionFailedError, NameResolutionError, OttlaError, ProtocolMismatchError
from ottla.interfaces import Buffer, Target, TransportLayer
from ottla.network.selector import Selector
from ottla.network.selector.selector import _peer
from ottla.plugins.transports import SocketLayer
from ottla_transport_plaintext import PlaintextTransport
from real_selector import HANG_GUARD, Events, Shutdown, Waits, connect, framed, make_selector, reset


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def selector() -> Iterator[Selector]:
    made = make_selector()
    yield made
    made.shutdown()


class FailingWrites(PlaintextTransport):
    """A transport that reads, and fails to write with what the test wants."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        failure = self.failure

        class Layer(SocketLayer):
            def write(self, chunks: Sequence[Buffer]) -> int:
                raise failure

        return Layer(sock)


@pytest.mark.rule("selector.close.failed-write")
@pytest.mark.parametrize("failure", [BrokenPipeError(errno.EPIPE, "Broken pipe"), ZeroDivisionError("a fault")])
def test_a_failed_write_ends_the_connection_after_received_responses(
    failure: Exception, listener: socket.socket
) -> None:
    selector = make_selector(transport=FailingWrites(failure))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        peer.sendall(b"".join(map(framed, (b"one", b"two", b"three"))) + framed(b"half")[:6])
        events.send(1, [b"request"])
        events.until(lambda: events.disconnected)
        peer.close()

    assert events.received == [(1, b"one"), (1, b"two"), (1, b"three")]
    assert str(failure) in str(events.disconnected[1])
    assert events.sent == []


@pytest.mark.rule("selector.close.failed-write")
def test_a_connection_with_a_failed_write_ends_without_a_socket_event(listener: socket.socket) -> None:
    selector = make_selector(transport=FailingWrites(BrokenPipeError()))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.send(1, [b"request"])
        waits = Waits(selector)
        events.poll(HANG_GUARD)
        peer.close()

    assert list(events.disconnected) == [1]
    assert waits.given == [0.0]


def ended_after(
    sent: bytes, selector: Selector, listener: socket.socket, *, node: int, end: Callable[[socket.socket], object]
) -> Events:
    """What came of a connection whose peer sends this and ends it."""
    events, peer = connect(selector, listener, node=node)
    peer.sendall(sent)
    end(peer)
    events.until(lambda: events.disconnected)
    return events


@pytest.mark.rule("selector.close.reset", "selector.receive.whole")
def test_a_reset_at_any_byte_of_a_response_gives_all_of_it_or_none(selector: Selector, listener: socket.socket) -> None:
    answer = framed(b"an answer")
    for cut in range(len(answer) + 1):
        events = ended_after(answer[:cut], selector, listener, node=cut, end=reset)

        assert events.received == ([(cut, b"an answer")] if cut == len(answer) else [])
        assert isinstance(events.disconnected[cut], ConnectionFailedError)


@pytest.mark.rule("selector.close.arrived", "selector.receive.whole")
def test_a_close_at_any_byte_of_a_second_response_leaves_the_first(selector: Selector, listener: socket.socket) -> None:
    first, second = framed(b"the first"), framed(b"the second")
    for cut in range(len(second)):
        events = ended_after(first + second[:cut], selector, listener, node=cut, end=socket.socket.close)

        assert events.received == [(cut, b"the first")]
        assert "closed the connection" in str(events.disconnected[cut])


@pytest.mark.rule("selector.close.reset")
def test_a_reset_during_an_unfinished_send_ends_the_connection(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    events.send(1, [bytes(5_000_000)])
    events.poll()
    peer.recv(1_000)
    reset(peer)

    events.until(lambda: events.disconnected)

    assert events.sent == []
    assert isinstance(events.disconnected[1], ConnectionFailedError)


@pytest.mark.rule("selector.send.closing")
def test_a_send_to_a_closing_connection_ends_as_a_disconnect(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    reason = ConnectionFailedError("as the test asked")

    selector.close(1, reason)
    events.send(1, [b"request"])
    events.poll()

    assert events.disconnected == {1: reason}
    assert events.sent == []
    assert peer.recv(10) == b""
    peer.close()


@pytest.mark.rule("selector.close.wanted")
def test_a_requested_close_takes_effect_in_the_next_poll_without_a_wait(
    selector: Selector, listener: socket.socket
) -> None:
    _events, peer = connect(selector, listener)
    peer.sendall(framed(b"too late"))
    selector.close(1, ConnectionFailedError("first"))
    waits = Waits(selector)
    selector.poll(HANG_GUARD)

    assert waits.given == [0.0]

    assert [str(error) for error in selector.disconnected.values()] == ["first"]
    assert selector.received == []
    selector.poll(0.0)
    assert not selector.disconnected
    peer.close()


@pytest.mark.rule("selector.connect.id")
def test_a_connection_id_is_unique_even_while_it_is_closing(selector: Selector, listener: socket.socket) -> None:
    host, port = listener.getsockname()
    target = Target(socket.AF_INET, (host, port))
    _events, peer = connect(selector, listener)
    selector.close(1, ConnectionFailedError("the old one"))
    with pytest.raises(AssertionError, match="exists once"):
        selector.connect(1, target, host, port)
    peer.close()

    selector.poll(0.0)
    _events, peer = connect(selector, listener)
    peer.close()


@pytest.mark.rule("selector.close.wanted")
def test_closing_an_ended_connection_does_not_close_its_successor(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    peer.close()
    events.until(lambda: events.disconnected)
    selector.close(1, ConnectionFailedError("late"))

    events, peer = connect(selector, listener)
    events.poll(0.0)
    peer.close()

    assert not events.disconnected


def test_a_renamed_connection_ends_with_its_new_id(selector: Selector, listener: socket.socket) -> None:
    _events, peer = connect(selector, listener)
    selector.close(1, ConnectionFailedError("closed by the test"))

    selector.rename(1, 7)
    selector.poll(0.0)

    assert list(selector.disconnected) == [7]
    peer.close()


@pytest.mark.rule("selector.receive.bounded")
@pytest.mark.parametrize("size", [-1, -(2**31), 10_000_001, 2**31 - 1])
def test_an_impossible_response_size_ends_the_connection(
    size: int, selector: Selector, listener: socket.socket
) -> None:
    events, peer = connect(selector, listener)
    peer.sendall(size.to_bytes(4, "big", signed=True) + b"rest")
    events.until(lambda: events.disconnected)
    peer.close()

    assert isinstance(events.disconnected[1], ProtocolMismatchError)


def test_empty_responses_are_received(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    peer.sendall(framed(b"") + framed(b"") + framed(b"end"))
    events.until(lambda: len(events.received) == 3)
    peer.close()

    assert [frame for _node, frame in events.received] == [b"", b"", b"end"]


# Faults of the system and of transports


def ended(selector: Selector, target: Target) -> OttlaError:
    """What became of a connect that cannot succeed."""
    try:
        selector.connect(1, target, "kafka.example", 9092)
    except ConnectionFailedError as error:
        return error
    events = Events(selector)
    events.until(lambda: events.disconnected)
    return events.disconnected[1]


@pytest.mark.rule("selector.connect.impossible")
@pytest.mark.parametrize(
    "target",
    [
        Target(9_999, ("127.0.0.1", 9092)),
        Target(socket.AF_INET, ("127.0.0.1", 70_000)),
        Target(socket.AF_INET, "no pair"),
        Target(socket.AF_UNIX, "/" + "x" * 200),
        Target(socket.AF_UNIX, "/no/such/socket"),
    ],
    ids=["no such family", "no such port", "no address", "path too long", "no such path"],
)
def test_a_target_that_no_socket_accepts_is_a_failed_connection(target: Target, selector: Selector) -> None:
    error = ended(selector, target)

    assert isinstance(error, ConnectionFailedError)
    assert "could not connect to kafka.example:9092" in str(error)


@pytest.mark.rule("selector.connect.impossible")
def test_without_file_descriptors_a_connect_fails_and_a_later_one_works(
    selector: Selector, listener: socket.socket
) -> None:
    host, port = listener.getsockname()
    target = Target(socket.AF_INET, (host, port))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(ConnectionFailedError, match="Too many open files"):
            selector.connect(1, target, host, port)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    events, peer = connect(selector, listener)
    peer.close()
    assert events.connected == [1]


@pytest.mark.rule("selector.transport.fault")
def test_a_transport_that_fails_to_close_leaks_no_socket(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    class Clinging(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
            class Layer(SocketLayer):
                def close(self) -> None:
                    raise ZeroDivisionError("a fault in a plugin")

            return Layer(sock)

    selector = make_selector(transport=Clinging())
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        selector.close(1, ConnectionFailedError("as the test asked"))
        events.poll()

    assert list(events.disconnected) == [1]
    assert peer.recv(10) == b""
    assert "failed to close" in caplog.text
    peer.close()


@pytest.mark.rule("selector.transport.fault")
def test_a_transport_without_targets_for_a_broker_fails_that_one_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Lost(PlaintextTransport):
        def targets(self, host: str, port: int) -> Sequence[Target] | None:
            if host == "nowhere":
                return []
            if host == "refused":
                raise NameResolutionError("the proxy says no")
            raise ZeroDivisionError("a fault in a plugin")

    selector = make_selector(transport=Lost())
    with contextlib.closing(Shutdown(selector)):
        for host, reported in (("nowhere", "knows no address"), ("refused", "proxy says no"), ("any", "a fault")):
            with pytest.raises(NameResolutionError, match=reported):
                selector.resolve(host, 9092)

    assert caplog.text.count("Traceback") == 1


@pytest.mark.rule("selector.close.shutdown")
def test_shutdown_closes_every_socket(listener: socket.socket) -> None:
    selector = make_selector()
    peers = [connect(selector, listener, node)[1] for node in range(3)]
    host, port = listener.getsockname()
    selector.connect(9, Target(socket.AF_INET, (host, port)), host, port)

    selector.shutdown()
    selector.wakeup()

    peers.append(listener.accept()[0])
    assert [peer.recv(10) for peer in peers] == [b""] * 4
    for peer in peers:
        peer.close()


def test_an_ipv6_peer_is_shown_with_brackets() -> None:
    assert _peer(Target(socket.AF_INET6, ("::1", 9092)), "::1", 9092) == "[::1]:9092"
    assert _peer(Target(socket.AF_INET6, ("::1", 9092)), "kafka", 9092) == "kafka:9092 (::1)"
