import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from ottla_testkit.errors import PortInUseError, ProxyError
from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.proxy.cut_plan import Direction
from ottla_testkit.proxy.delaying_proxy import DelayingProxy, Traffic

WITHIN = 20.0
SLOW = 3.0  # a machine under load may add so much to a round trip of 0.1 s, in seconds
RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(WITHIN)
        yield listener


@contextmanager
def connection(proxy: DelayingProxy, target: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the target's, connected through the proxy."""
    with socket.create_connection((HOST, proxy.port), WITHIN) as client:
        server, _ = target.accept()
        with server:
            for end in (client, server):
                end.settimeout(WITHIN)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield client, server


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := end.recv(size - len(data))):
        data += chunk
    return data


def ping(client: socket.socket, server: socket.socket) -> float:
    """Seconds until an answer was there."""
    started = time.monotonic()
    client.sendall(b"ping")
    assert receive(server, 4) == b"ping"
    server.sendall(b"pong")
    assert receive(client, 4) == b"pong"
    return time.monotonic() - started


@pytest.mark.parametrize("round_trip", [0.0, 0.001, 0.1])
def test_a_response_takes_the_round_trip_and_hardly_more(target: socket.socket, round_trip: float) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=round_trip) as proxy, connection(proxy, target) as ends:
        ping(*ends)  # its first half also waits for the handshake
        took = sorted(ping(*ends) for _ in range(11))

    early = 0.002  # what the proxy may ask to be woken early, for each way, if the machine is usually late
    assert took[5] >= round_trip - early
    assert took[0] < round_trip + SLOW


def test_each_direction_takes_half_of_the_round_trip(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.2) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        started = time.monotonic()
        client.sendall(b"ping")
        receive(server, 4)
        there = time.monotonic() - started

    assert 0.095 <= there < 0.2 + SLOW


def test_the_first_bytes_also_wait_for_the_handshake(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.1) as proxy:
        started = time.monotonic()
        with connection(proxy, target) as ends:
            ping(*ends)
        assert time.monotonic() - started >= 0.195


def test_many_requests_may_be_in_flight_at_once(target: socket.socket) -> None:
    """Ten that are sent before any answer arrives: a proxy that forwards one at a time would need ten round trips."""
    with DelayingProxy(*target.getsockname(), round_trip=1.0) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        started = time.monotonic()
        for number in range(10):
            client.sendall(b"%d" % number)
            time.sleep(0.01)
        sent_within = time.monotonic() - started
        assert receive(server, 10) == b"0123456789"
        arrived_within = time.monotonic() - started

    assert sent_within < 0.5
    assert arrived_within < 10 * 0.5


def test_the_delay_does_not_limit_the_bandwidth(target: socket.socket) -> None:
    """A proxy with a window of 256 KB would need 80 half round trips for 20 MB."""
    sent = bytes(range(256)) * 80_000
    with DelayingProxy(*target.getsockname(), round_trip=1.0) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        sender = threading.Thread(target=client.sendall, args=(sent,))
        started = time.monotonic()
        sender.start()
        received = receive(server, len(sent))
        took = time.monotonic() - started
        sender.join(WITHIN)

    assert received == sent
    assert 0.45 <= took < 20


def test_jitter_is_random_and_keeps_the_order(target: socket.socket) -> None:
    with (
        DelayingProxy(*target.getsockname(), round_trip=0.0, jitter=0.2, seed=1) as proxy,
        connection(proxy, target) as (client, server),
    ):
        took = [ping(client, server) for _ in range(8)]
        for number in range(50):
            client.sendall(b"%02d" % number)
            time.sleep(0.001)

        assert receive(server, 100) == b"".join(b"%02d" % number for number in range(50))
    assert max(took) - min(took) > 0.02


def test_a_connection_does_not_wait_for_another(target: socket.socket) -> None:
    """Twenty connections at once need one round trip, not twenty."""
    with DelayingProxy(*target.getsockname(), round_trip=0.5) as proxy:
        opened = [connection(proxy, target) for _ in range(20)]
        pairs = [each.__enter__() for each in opened]
        started = time.monotonic()
        for client, _ in pairs:
            client.sendall(b"ping")
        for _, server in pairs:
            receive(server, 4)
            server.sendall(b"pong")
        for client, _ in pairs:
            assert receive(client, 4) == b"pong"
        took = time.monotonic() - started
        for each in opened:
            each.__exit__(None, None, None)

    assert took < 20 * 0.5


def test_the_distance_can_change_while_connections_exist(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as ends:
        ping(*ends)
        proxy.round_trip = 0.1
        assert min(ping(*ends) for _ in range(3)) >= 0.095
        proxy.round_trip = 0.0
        assert min(ping(*ends) for _ in range(20)) < 0.095
        proxy.jitter = 0.4
        assert max(ping(*ends) for _ in range(10)) > 0.02


def test_a_limited_rate_spreads_bytes_and_delays_the_sender(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        proxy.bytes_per_second = 1000.0
        started = time.monotonic()
        client.sendall(b"x" * 300)
        assert receive(server, 300) == b"x" * 300
        assert time.monotonic() - started >= 0.29

        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.sendall(bytes(20_000_000))  # more than the buffers of both sockets
        proxy.bytes_per_second = None


def test_a_link_may_work_in_one_direction_only(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        proxy.hold(Direction.BACK)
        client.sendall(b"there")
        assert receive(server, 5) == b"there"
        server.sendall(b"and back")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        with connection(proxy, target) as (other, its_server):  # a new connection is no better
            its_server.sendall(b"hello")
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.recv(1)
            proxy.release()
            other.settimeout(WITHIN)
            assert receive(other, 5) == b"hello"
        client.settimeout(WITHIN)
        assert receive(client, 8) == b"and back"


def test_a_held_link_delivers_neither_bytes_nor_ends(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as (client, server):
        proxy.hold()
        client.sendall(b"the last")
        client.close()
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.recv(1)
        proxy.release()
        server.settimeout(WITHIN)
        assert receive(server, 100) == b"the last"


def test_a_cut_link_resets_its_connections_and_accepts_others(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy:
        with connection(proxy, target) as (client, server):
            ping(client, server)
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with connection(proxy, target) as ends:
            ping(*ends)


def test_traffic_is_counted(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as (client, server):
        client.sendall(b"question")
        receive(server, 8)
        server.sendall(b"no")
        receive(client, 2)

        assert proxy.traffic == Traffic(connections=1, bytes_out=8, bytes_back=2)


def test_the_end_of_one_direction_arrives_behind_its_bytes(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.1) as proxy, connection(proxy, target) as (client, server):
        client.sendall(b"the last")
        client.shutdown(socket.SHUT_WR)

        assert receive(server, 100) == b"the last"
        server.sendall(b"and the answer")
        assert receive(client, 14) == b"and the answer"


def test_a_reset_arrives_as_a_reset(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.1) as proxy, connection(proxy, target) as (client, server):
        ping(client, server)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        server.close()

        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_refusing_target_resets_the_connection(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy:
        target.close()
        with socket.create_connection((HOST, proxy.port), WITHIN) as client, pytest.raises(ConnectionResetError):
            client.recv(1)


def test_new_connections_use_the_current_target_of_the_proxy(target: socket.socket) -> None:
    with (
        DelayingProxy(HOST, 1, round_trip=0.0) as proxy,
        socket.create_server((HOST, 0)) as elsewhere,
    ):
        elsewhere.settimeout(WITHIN)
        proxy.point_to(*target.getsockname())
        with connection(proxy, target) as ends:
            proxy.point_to(*elsewhere.getsockname())
            with connection(proxy, elsewhere) as others:
                ping(*others)
            ping(*ends)


def test_a_receiver_that_does_not_read_blocks_its_sender(target: socket.socket) -> None:
    """The proxy keeps a few megabytes of what has arrived, not all that a client could send."""
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, connection(proxy, target) as (client, server):
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.sendall(bytes(100_000_000))
        read = proxy.traffic.bytes_out
        assert read < 50_000_000
        assert len(receive(server, read)) == read


def test_stopping_resets_connections_and_accepts_no_more(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.1) as proxy:
        client = socket.create_connection((HOST, proxy.port), WITHIN)
        client.settimeout(WITHIN)
        server, _ = target.accept()
        client.sendall(b"on its way")
        assert receive(server, 10) == b"on its way"
        client.sendall(b"lost")

    with client, server, pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port), WITHIN)


def test_a_proxy_whose_process_died_reports_it(target: socket.socket) -> None:
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy:
        assert proxy._process is not None
        proxy._process.kill()
        proxy._process.wait()

        with pytest.raises(ProxyError, match=f"the proxy on port {proxy.port} has ended"):
            proxy.round_trip = 1.0


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf")])
def test_an_impossible_distance_is_refused_with_the_unit(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"write it in seconds, such as 0\.03 for 30 ms"):
        DelayingProxy(HOST, 1, round_trip=seconds)


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="None removes the limit"):
        DelayingProxy(HOST, 1, round_trip=0.0).bytes_per_second = rate


def test_several_threads_may_give_orders_to_a_proxy(target: socket.socket) -> None:
    """A test makes faults on one thread, and reads the traffic on another."""
    with DelayingProxy(*target.getsockname(), round_trip=0.0) as proxy, ThreadPoolExecutor(4) as pool:
        read = [pool.submit(lambda: [proxy.traffic for _ in range(100)]) for _thread in range(4)]
        counts = [traffic for each in read for traffic in each.result(WITHIN)]

    assert counts == [Traffic(connections=0, bytes_out=0, bytes_back=0)] * 400


def test_a_proxy_whose_port_was_taken_meanwhile_says_so() -> None:
    """KafkaCluster then chooses other ports."""
    proxy = DelayingProxy(HOST, 1, round_trip=0.0)

    with (
        socket.create_server((HOST, proxy.port)),
        pytest.raises(PortInUseError, match=f"another process holds port {proxy.port}"),
        proxy,
    ):
        pass
