"""The doctor speaks through whatever transport the configuration picks, however that one behaves."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from ottla.doctor.bounds import Bounds
from ottla.doctor.handshake import HandshakeResult, KafkaBroker, NoHandshake, NotKafka, do_handshakes
from ottla.doctor.names import Resolved, Server, Unresolved, look_up
from ottla.doctor.tcp import Connected, Endpoint, NotConnected, connect
from ottla.interfaces import Buffer, HostTarget, Interest, Target, TransportLayer
from ottla.network.selector_interface import Address
from ottla.plugins.transports import SocketLayer
from wrong_peers import ScriptedBroker, serving

BROKER_SAYS = b"hello"

MakeLayer: TypeAlias = Callable[[socket.socket], TransportLayer]


class Layer(SocketLayer):
    """Waits for a greeting of the server, and takes one byte at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._sock = sock
        self._heard = b""

    def handshake(self) -> bool:
        if self._heard != BROKER_SAYS:
            with contextlib.suppress(BlockingIOError):
                self._heard += self._sock.recv(len(BROKER_SAYS) - len(self._heard))
        return self._heard == BROKER_SAYS

    def interest(self) -> Interest:
        return Interest.NONE if self._heard == BROKER_SAYS else Interest.READ

    def write(self, chunks: Sequence[Buffer]) -> int:
        return super().write([bytes(chunks[0][:1])])

    def read_into(self, buffer: memoryview) -> int | None:
        return super().read_into(buffer[:1])


class OneTransport:
    """Makes layers by a function; where to connect is fixed, if it is."""

    def __init__(
        self, make: Callable[[socket.socket], TransportLayer], targets: Sequence[Target | HostTarget] | None = None
    ) -> None:
        self._make = make
        self._targets = targets

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget] | None:
        return self._targets

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        return self._make(sock)


def raising(error: Exception) -> MakeLayer:
    def make(_sock: socket.socket) -> TransportLayer:
        raise error

    return make


def bounds(timeout: float = 60.0) -> Bounds:
    return Bounds.of(timeout, time.monotonic)


def endpoint_at(host: str, port: int) -> Endpoint:
    return Endpoint(server=Server(host, port), address=Address(host=host, target=Target(socket.AF_INET, (host, port))))


def handshake_result(address: tuple[str, int], transport: OneTransport, within: Bounds) -> HandshakeResult:
    [attempt] = connect([endpoint_at(*address)], setting="bootstrap.servers", bounds=within)
    assert isinstance(attempt, Connected)
    [found] = do_handshakes([attempt], transport=transport, bounds=within)
    return found


def test_a_handshake_and_responses_in_small_pieces_are_waited_for() -> None:
    broker = ScriptedBroker()

    def conduct(peer: socket.socket) -> None:
        peer.sendall(BROKER_SAYS)
        broker(peer)

    with serving(conduct) as address:
        found = handshake_result(address, OneTransport(Layer), bounds())
        assert isinstance(found, KafkaBroker)
        found.session.close()

    assert found.versions[0] == (0, 13)


def test_a_layer_that_is_always_readable_is_polled_after_its_socket() -> None:
    class Eager(SocketLayer):
        reads = 0

        def may_read(self) -> bool:
            return True

        def read_into(self, buffer: memoryview) -> int | None:
            Eager.reads += 1
            return super().read_into(buffer)

    def listen(peer: socket.socket) -> None:
        while peer.recv(1000):
            pass

    with serving(listen) as address:
        found = handshake_result(address, OneTransport(Eager), bounds(1.2))

    assert isinstance(found, NotKafka)
    assert Eager.reads == 2  # before the wait, and after


def test_an_endless_handshake_is_abandoned() -> None:
    with serving(lambda peer: peer.sendall(BROKER_SAYS[:2])) as address:
        found = handshake_result(address, OneTransport(Layer), bounds(1.2))

    assert isinstance(found, NoHandshake)
    # More than 0.2 s where the machine is busy.
    assert re.match(r"the handshake did not end within \d\.\d s", found.problem.message)


@pytest.mark.parametrize(
    ("error", "said", "remedy"),
    [
        (OSError("certificate has expired"), "the handshake failed: certificate has expired", "security.protocol"),
        (ConnectionResetError(104, "reset"), "the handshake failed: [Errno 104] reset", "security.protocol"),
        (ZeroDivisionError("oops"), "the transport failed: ZeroDivisionError('oops')", "plugin's authors"),
    ],
)
def test_an_error_of_a_transport_is_a_finding(error: Exception, said: str, remedy: str) -> None:
    with serving(ScriptedBroker()) as address:
        found = handshake_result(address, OneTransport(raising(error)), bounds())

    assert isinstance(found, NoHandshake)
    assert found.problem.message == said
    assert remedy in found.problem.remedy


def test_a_transport_that_blocks_is_abandoned_after_the_timeout() -> None:
    released = threading.Event()

    def make(sock: socket.socket) -> TransportLayer:
        released.wait(20.0)
        raise OSError("too late")

    with serving(ScriptedBroker()) as address:
        found = handshake_result(address, OneTransport(make), bounds(0.5))
        released.set()

    assert isinstance(found, NoHandshake)
    assert found.problem.message == "the transport did not return in time"


def test_targets_of_a_transport_take_precedence_over_dns() -> None:
    target = Target(socket.AF_UNIX, "/nowhere/relay.sock")
    transport = OneTransport(SocketLayer, [target])
    [found] = look_up(
        [Server("nowhere.invalid", 9092)], transport=transport, canonical=False, setting="s", bounds=bounds()
    )
    assert isinstance(found, Resolved)
    assert found.own
    [attempt] = connect([Endpoint(server=found.server, address=found.addresses[0])], setting="s", bounds=bounds())

    assert str(attempt.endpoint) == "nowhere.invalid:9092 (/nowhere/relay.sock)"
    assert isinstance(attempt, NotConnected)
    assert attempt.problem.message == "could not connect: ENOENT"


@pytest.fixture
def hanging_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system's resolver does not return for names that begin with `slow`."""
    released = threading.Event()
    original = socket.getaddrinfo

    def getaddrinfo(host: str, *args: object, **kwargs: object) -> object:
        if host.startswith("slow") and not kwargs.get("flags"):
            released.wait(20.0)
        return original(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    released.set()


@pytest.mark.usefixtures("hanging_resolver")
def test_a_dns_server_that_hangs_delays_neither_the_end_nor_other_names() -> None:
    slow, local = Server("slow.invalid", 9092), Server("localhost", 9092)
    limits = bounds(6.0)
    late, found = look_up(
        [slow, local], transport=OneTransport(SocketLayer), canonical=False, setting="s", bounds=limits
    )

    assert isinstance(found, Resolved)
    assert not isinstance(late, Resolved)
    # One wait is a part of the whole time. A busy machine notices its end later; the text has the time it took.
    assert limits.timeout <= late.seconds < 6.0
    assert late.problem.message == f"the name could not be looked up within {late.seconds:.1f} s"


def test_no_thread_outlives_a_finished_lookup() -> None:
    before = set(threading.enumerate())
    look_up(
        [Server("localhost", 9092)],
        transport=OneTransport(SocketLayer),
        canonical=False,
        setting="s",
        bounds=bounds(),
    )
    begun = set(threading.enumerate()) - before
    for thread in begun:
        thread.join(20.0)

    assert not any(thread.is_alive() for thread in begun)


def test_canonical_names_are_looked_up_if_configured() -> None:
    [found] = look_up(
        [Server("127.0.0.1", 9092)],
        transport=OneTransport(SocketLayer),
        canonical=True,
        setting="s",
        bounds=bounds(),
    )

    assert isinstance(found, Resolved)
    assert found.addresses[0].host == socket.getnameinfo(("127.0.0.1", 9092), 0)[0]


def test_a_target_that_is_a_name_is_looked_up_once_for_all_brokers() -> None:
    transport = OneTransport(SocketLayer, [HostTarget("localhost", 1080)])
    found = look_up(
        [Server("nowhere.invalid", 9092), Server("elsewhere.invalid", 9093)],
        transport=transport,
        canonical=False,
        setting="s",
        bounds=bounds(),
    )

    for each in found:
        assert isinstance(each, Resolved)
        assert each.own
        assert {address.target.sockaddr[1] for address in each.addresses} == {1080}
    assert [each.server.host for each in found] == ["nowhere.invalid", "elsewhere.invalid"]


def test_a_target_without_an_address_is_reported_with_its_setting() -> None:
    transport = OneTransport(SocketLayer, [HostTarget("no-such-proxy.invalid", 1080)])
    [found] = look_up([Server("kafka", 9092)], transport=transport, canonical=False, setting="s", bounds=bounds())

    assert isinstance(found, Unresolved)
    assert found.server == Server("kafka", 9092)
    assert "'no-such-proxy.invalid' has no address" in found.problem.message
    assert "the transport's own settings" in found.problem.remedy


def test_a_proxy_that_refuses_is_reported_as_the_proxy_with_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address, port = taken.getsockname()
    target = Target(socket.AF_INET, (address, port))
    endpoint = Endpoint(server=Server("kafka", 9092), address=Address(host="kafka", target=target), own=True)
    [attempt] = connect([endpoint], setting="bootstrap.servers", bounds=bounds())

    assert isinstance(attempt, NotConnected)
    assert str(attempt.endpoint) == f"kafka:9092 (127.0.0.1:{port})"
    assert (
        attempt.problem.remedy == "check that the proxy is running, and host and port in the transport's own settings"
    )


def test_a_session_that_is_ready_too_late_is_closed() -> None:
    sockets: list[socket.socket] = []
    abandoned: list[threading.Thread] = []
    begun, released = threading.Event(), threading.Event()

    def make(sock: socket.socket) -> TransportLayer:
        sockets.append(sock)
        abandoned.append(threading.current_thread())
        begun.set()
        released.wait(20.0)
        return SocketLayer(sock)

    def clock() -> float:
        """For the caller the time is over at once, for the thread that shakes hands it never is."""
        return 100.0 if threading.current_thread() is threading.main_thread() else 0.0

    with serving(ScriptedBroker()) as (host, port):
        [attempt] = connect([endpoint_at(host, port)], setting="bootstrap.servers", bounds=bounds())
        assert isinstance(attempt, Connected)
        limits = Bounds(timeout=20.0, ends_at=50.0, clock=clock)
        [found] = do_handshakes([attempt], transport=OneTransport(make), bounds=limits)
        begun.wait(20.0)
        released.set()
        abandoned[0].join(20.0)

    assert isinstance(found, NoHandshake)
    assert sockets[0].fileno() == -1
