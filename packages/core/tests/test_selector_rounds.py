"""One round of the selector: the connections that it serves, their order, and its wait."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ottla.interfaces import Buffer, Interest, Target, TransportLayer
from ottla.network.selector import Selector
from ottla.plugins.transports import SocketLayer
from ottla_transport_plaintext import PlaintextTransport
from real_selector import HANG_GUARD, Events, Shutdown, Waits, connect, framed, make_selector


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        yield server


@pytest.fixture
def selector() -> Iterator[Selector]:
    made = make_selector()
    yield made
    made.shutdown()


class Using(PlaintextTransport):
    """A transport whose layers a test writes."""

    def __init__(self, layer: Callable[[socket.socket], TransportLayer]) -> None:
        self.layer = layer

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        return self.layer(sock)


class NotingLayer(SocketLayer):
    """A layer that notes what is asked of it; its handshake takes as many calls as `handshakes`."""

    def __init__(self, sock: socket.socket, *, handshakes: int = 1) -> None:
        super().__init__(sock)
        self.calls: list[str] = []
        self.handshakes = handshakes

    def handshake(self) -> bool:
        self.calls.append("handshake")
        self.handshakes -= 1
        return self.handshakes <= 0

    def interest(self) -> Interest:
        return Interest.WRITE if self.handshakes > 0 else Interest.NONE

    def write(self, chunks: Sequence[Buffer]) -> int:
        self.calls.append("write")
        return super().write(chunks)

    def read_into(self, buffer: memoryview) -> int | None:
        self.calls.append("read")
        return super().read_into(buffer)


def registered(selector: Selector, node: int = 1) -> int:
    """For what the selector watches a connection's socket."""
    return selector._connections[node].events


# Connecting


@pytest.mark.rule("selector.connect.at-once", "selector.poll.zero")
def test_an_immediate_connection_is_reported_by_the_next_poll(selector: Selector) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "broker")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        selector.connect(1, Target(socket.AF_UNIX, path), "broker", 9092)  # a Unix socket connects at once
        waits = Waits(selector)

        selector.poll(HANG_GUARD)

        assert selector.connected == [1]
        assert waits.given == [0.0]
        peer, _address = server.accept()
        selector.poll(0.0)
        assert selector.connected == []
        peer.close()
        server.close()


@pytest.mark.rule("selector.connect.options")
def test_sockets_have_keepalive_nodelay_and_the_configured_buffers(listener: socket.socket) -> None:
    with socket.socket() as like_it:  # the system rounds and doubles the given value
        like_it.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 40_000)
        like_it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
        buffers = [like_it.getsockopt(socket.SOL_SOCKET, which) for which in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
    selector = make_selector(send_buffer=40_000, receive_buffer=50_000)
    with contextlib.closing(Shutdown(selector)):
        _events, peer = connect(selector, listener)
        sock = selector._connections[1].sock

        assert not sock.getblocking()
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert [sock.getsockopt(socket.SOL_SOCKET, w) for w in (socket.SO_SNDBUF, socket.SO_RCVBUF)] == buffers
        peer.close()


@pytest.mark.rule("selector.connect.waits-not")
def test_a_connect_that_is_not_accepted_delays_no_other_connection(selector: Selector) -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    host, port = full.getsockname()
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex((host, port))  # its backlog is full: the next SYN is not answered
    selector.connect(7, Target(socket.AF_INET, (host, port)), host, port)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        events, peer = connect(selector, listener, node=1)
        peer.sendall(framed(b"answer"))
        events.until(lambda: events.received)
        peer.close()

    assert events.connected == [1]
    for each in (full, *waiting):
        each.close()


@pytest.mark.rule("selector.connect.waits-not")
def test_a_process_with_over_a_thousand_open_files_connects_normally(listener: socket.socket) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2_000:
        pytest.skip("this machine lets a process open fewer files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2_000, limits[0]), limits[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1_100):
            stack.callback(os.close, os.dup(listener.fileno()))
        selector = make_selector()
        stack.callback(selector.shutdown)

        events, peer = connect(selector, listener)
        peer.sendall(framed(b"answer"))
        events.until(lambda: events.received)

        assert selector._connections[1].sock.fileno() > 1_024
        peer.close()


# One connection in one round


@pytest.mark.rule("selector.round.steps")
def test_a_round_does_handshake_then_reads_then_writes(listener: socket.socket) -> None:
    made: list[NotingLayer] = []

    def layer(sock: socket.socket) -> TransportLayer:
        made.append(NotingLayer(sock))
        return made[-1]

    selector = make_selector(transport=Using(layer))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        assert made[0].calls == ["handshake"]
        peer.sendall(framed(b"answer"))
        events.send(1, [bytes(5_000_000)])  # more than is taken at once: the rest is for rounds
        made[0].calls.clear()
        while not (events.received and "write" in made[0].calls):
            peer.recv(1_000_000)
            events.poll()
        peer.close()

    assert made[0].calls.index("read") < made[0].calls.index("write")
    assert "handshake" not in made[0].calls


@pytest.mark.rule("selector.receive.ready", "selector.interest.read")
def test_no_data_is_read_before_the_handshake_is_complete(listener: socket.socket) -> None:
    made: list[NotingLayer] = []

    def layer(sock: socket.socket) -> TransportLayer:
        made.append(NotingLayer(sock, handshakes=3))
        return made[-1]

    selector = make_selector(transport=Using(layer))
    with contextlib.closing(Shutdown(selector)):
        host, port = listener.getsockname()
        selector.connect(1, Target(socket.AF_INET, (host, port)), host, port)
        assert registered(selector) == selectors.EVENT_WRITE
        peer, _address = listener.accept()
        peer.sendall(framed(b"early"))
        events = Events(selector)
        events.until(lambda: len(made[0].calls) == 2 if made else False)
        assert made[0].calls == ["handshake", "handshake"]
        assert registered(selector) == selectors.EVENT_WRITE

        events.until(lambda: events.received)
        peer.close()

    assert events.connected == [1]
    assert events.received == [(1, b"early")]


@pytest.mark.rule("selector.interest.write")
def test_the_socket_is_watched_for_writing_only_during_a_send(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    assert registered(selector) == selectors.EVENT_READ

    events.send(1, [bytes(3_000_000)])
    assert registered(selector) == selectors.EVENT_READ | selectors.EVENT_WRITE
    events.poll()
    assert registered(selector) == selectors.EVENT_READ | selectors.EVENT_WRITE

    peer.setblocking(False)
    while not events.sent:
        with contextlib.suppress(BlockingIOError):
            peer.recv(1_000_000)
        events.poll(0.01)
    assert registered(selector) == selectors.EVENT_READ
    peer.close()


@pytest.mark.rule("selector.send.one")
def test_a_second_send_before_the_first_is_written_is_an_ottla_bug(selector: Selector, listener: socket.socket) -> None:
    events, peer = connect(selector, listener)
    events.send(1, [bytes(5_000_000)])
    selector.poll(0.0)

    with pytest.raises(AssertionError, match="one send at a time"):
        events.send(1, [b"second"])
    peer.close()


@pytest.mark.rule("selector.send.partial", "selector.receive.whole")
def test_requests_and_responses_pass_through_a_layer_of_single_bytes(listener: socket.socket) -> None:
    class OneByte(SocketLayer):
        def write(self, chunks: Sequence[Buffer]) -> int:
            return super().write([memoryview(chunks[0])[:1]])

        def read_into(self, buffer: memoryview) -> int | None:
            return super().read_into(buffer[:1])

    selector = make_selector(transport=Using(OneByte))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.send(1, [b"re", b"", memoryview(b"quest"), bytearray(b"!")])
        events.until(lambda: events.sent)
        peer.sendall(framed(b"answer") + framed(b"more"))
        events.until(lambda: len(events.received) == 2)

        assert peer.recv(100) == b"request!"
        assert [frame for _node, frame in events.received] == [b"answer", b"more"]
        peer.close()


@pytest.mark.rule("selector.send.partial", "selector.receive.whole")
def test_requests_and_responses_pass_through_the_smallest_buffers() -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # inherited by what it accepts
    server.bind(("127.0.0.1", 0))
    server.listen()
    selector = make_selector(send_buffer=1, receive_buffer=1)
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, server)
        request, answer = bytes(range(256)) * 40, bytes(range(255, -1, -1)) * 40
        echoed = bytearray()

        def echo() -> None:
            while len(echoed) < len(request):
                echoed.extend(peer.recv(7))
            rest = framed(answer)
            while rest:
                rest = rest[peer.send(rest[:7]) :]

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        events.send(1, [request[:100], request[100:]])
        events.until(lambda: events.received)
        thread.join(HANG_GUARD)

    assert bytes(echoed) == request
    assert events.received == [(1, answer)]
    peer.close()
    server.close()


# All connections in one round


@pytest.mark.rule("selector.round.fair", "selector.receive.one")
def test_a_peer_that_sends_endlessly_delays_no_other(selector: Selector, listener: socket.socket) -> None:
    _events, loud = connect(selector, listener, node=1)
    events, quiet = connect(selector, listener, node=2)
    loud.sendall(framed(b"again") * 5_000)
    events.poll()
    quiet.sendall(framed(b"now"))

    events.received.clear()
    events.until(lambda: (2, b"now") in events.received)

    assert events.received.count((1, b"again")) <= events.polls
    for peer in (loud, quiet):
        peer.close()


@pytest.mark.rule("selector.round.fair")
def test_two_hundred_connections_send_and_receive_at_once(selector: Selector, listener: socket.socket) -> None:
    count = 200
    host, port = listener.getsockname()
    echoing = threading.Thread(target=echo_each, args=(listener, count), daemon=True)
    echoing.start()
    for node in range(count):
        selector.connect(node, Target(socket.AF_INET, (host, port)), host, port)
    events = Events(selector)
    events.until(lambda: len(events.connected) == count)
    for node in range(count):
        events.send(node, [framed(b"from %d" % node)])

    events.until(lambda: len(events.received) == count)

    assert sorted(events.sent) == list(range(count))
    assert sorted(events.received) == [(node, b"from %d" % node) for node in range(count)]
    events.until(lambda: len(events.disconnected) == count)
    echoing.join(HANG_GUARD)


def echo_each(listener: socket.socket, count: int) -> None:
    """Accept so many connections, give each its first frame back, then close them."""
    peers = [listener.accept()[0] for _ in range(count)]
    for peer in peers:
        frame = b""
        while len(frame) < 4 or len(frame) < 4 + struct.unpack_from(">i", frame)[0]:
            frame += peer.recv(100)
        peer.sendall(frame)
    for peer in peers:
        peer.close()


# Bytes that the transport holds


class Holding(NotingLayer):
    """Reads ahead, as TLS does, and says so; `promises` makes it say so even when it holds nothing."""

    promises = False

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.held = bytearray()

    def read_into(self, buffer: memoryview) -> int | None:
        self.calls.append("read")
        if not self.held:
            received = bytearray(65_536)
            size = SocketLayer.read_into(self, memoryview(received))
            if not size:
                return size
            self.held += received[:size]
        taken = self.held[: len(buffer)]
        buffer[: len(taken)] = taken
        del self.held[: len(taken)]
        return len(taken)

    def may_read(self) -> bool:
        return bool(self.held) or self.promises


def holding(listener: socket.socket) -> tuple[Selector, Holding, Events, socket.socket]:
    made: list[Holding] = []

    def layer(sock: socket.socket) -> TransportLayer:
        made.append(Holding(sock))
        return made[-1]

    selector = make_selector(transport=Using(layer))
    events, peer = connect(selector, listener)
    return selector, made[0], events, peer


@pytest.mark.rule("selector.receive.held", "selector.poll.zero")
def test_data_held_by_the_transport_is_returned_one_response_per_round(listener: socket.socket) -> None:
    selector, _layer, events, peer = holding(listener)
    with contextlib.closing(Shutdown(selector)):
        peer.sendall(b"".join(map(framed, (b"one", b"two", b"three"))))
        events.until(lambda: events.received)
        rounds = [list(events.received)]
        waits = Waits(selector)
        for _ in range(2):
            events.received.clear()
            events.poll(HANG_GUARD)
            rounds.append(list(events.received))
        peer.close()

    assert rounds == [[(1, b"one")], [(1, b"two")], [(1, b"three")]]
    assert waits.given == [0.0, 0.0]


@pytest.mark.rule("selector.poll.stalled")
def test_a_readable_layer_without_data_waits_for_its_socket(
    listener: socket.socket,
) -> None:
    selector, layer, events, peer = holding(listener)
    with contextlib.closing(Shutdown(selector)):
        layer.promises = True
        events.poll(0.0)
        layer.calls.clear()
        for _ in range(5):
            events.poll(0.0)
        assert layer.calls == []

        peer.sendall(framed(b"answer") + framed(b"held"))
        events.until(lambda: events.received)
        waits = Waits(selector)
        events.poll(HANG_GUARD)
        assert waits.given == [0.0]  # it gave something, so its word counts again
        assert events.received == [(1, b"answer"), (1, b"held")]
        peer.close()


@pytest.mark.rule("selector.round.once")
def test_a_connection_with_held_data_and_an_event_is_visited_once(listener: socket.socket) -> None:
    large = bytes(10_000)
    selector, layer, events, peer = holding(listener)
    with contextlib.closing(Shutdown(selector)):
        peer.sendall(framed(b"one") + framed(b"two") + framed(large) + framed(b"four"))
        events.until(lambda: len(events.received) == 2)
        assert layer.held  # a part of the large one, and what follows: more than the channel reads ahead
        events.send(1, [b"request"])  # the socket can be written: an event in addition to the bytes that are held
        events.received.clear()

        events.poll()
        peer.close()

    assert events.received == [(1, large)]


# Waking


@pytest.mark.rule("selector.wakeup")
def test_wakeups_of_many_threads_end_one_wait_only(selector: Selector) -> None:
    threads = [threading.Thread(target=selector.wakeup) for _ in range(20)]
    for thread in threads:
        thread.start()
    selector.poll(HANG_GUARD)
    for thread in threads:
        thread.join(HANG_GUARD)
    selector.poll(0.0)

    with pytest.raises(BlockingIOError):
        selector._wake_reader.recv(1)
    waits = Waits(selector)
    selector.wakeup()
    selector.poll(HANG_GUARD)
    assert waits.ended == [True]


def test_an_endless_wait_is_limited_to_the_maximum_of_the_system(selector: Selector) -> None:
    for timeout in (float("inf"), 1e12):
        selector.wakeup()
        selector.poll(timeout)
