import contextlib
import errno
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.proxy import Cut, CuttingProxy, Direction, pending_connections

WITHIN = 10.0


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(WITHIN)
        yield listener


@pytest.fixture
def proxy(target: socket.socket) -> Iterator[CuttingProxy]:
    with CuttingProxy(*target.getsockname()) as proxy:
        yield proxy


@pytest.fixture
def ends(proxy: CuttingProxy, target: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the target's, connected through the proxy."""
    with socket.create_connection((HOST, proxy.port), WITHIN) as client:
        server, _ = target.accept()
        with server:
            server.settimeout(WITHIN)
            yield client, server


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := end.recv(size - len(data))):
        data += chunk
    return data


def test_bytes_pass_in_both_directions(ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends

    client.sendall(b"ping")
    assert receive(server, 4) == b"ping"

    server.sendall(b"pong")
    assert receive(client, 4) == b"pong"


def test_more_data_than_the_socket_buffers_arrives_completely(ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    sent = bytes(range(256)) * 40_000
    sender = threading.Thread(target=client.sendall, args=(sent,))
    sender.start()

    received = receive(server, len(sent))
    sender.join(WITHIN)

    assert sent == received


def test_a_cut_resets_both_sides_and_allows_a_new_connection(
    proxy: CuttingProxy, target: socket.socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    proxy.cut()

    for end in ends:
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    with socket.create_connection((HOST, proxy.port), WITHIN) as again:
        server, _ = target.accept()
        with server:
            again.sendall(b"again")
            assert receive(server, 5) == b"again"


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("way", Direction)
def test_a_cut_at_a_byte_lets_exactly_the_earlier_bytes_pass(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket], way: Direction, count: int
) -> None:
    client, server = ends
    sender, receiver, other_way = (
        (client, server, Direction.BACK) if way is Direction.OUT else (server, client, Direction.OUT)
    )
    receiver.sendall(b"these do not count")
    assert receive(sender, 18) == b"these do not count"
    proxy.cut_after(count, way, reset=False)
    assert proxy.cut_is_due

    sender.sendall(b"ping")

    assert receive(receiver, 5) == b"ping"[:count]
    assert not proxy.cut_is_due
    assert (proxy.forwarded(way), proxy.forwarded(other_way)) == (count, 18)
    assert sender.recv(1) == b""


def test_a_cut_at_a_byte_may_be_a_reset_and_spares_the_next_connection(
    proxy: CuttingProxy, target: socket.socket, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, _server = ends
    proxy.cut_after(0, Direction.OUT, reset=True)

    client.sendall(b"ping")

    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with socket.create_connection((HOST, proxy.port), WITHIN) as again:
        server, _ = target.accept()
        with server:
            again.sendall(b"again")
            assert receive(server, 5) == b"again"


def test_new_connections_use_the_current_target_of_the_proxy(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, server = ends
    with socket.create_server((HOST, 0)) as elsewhere:
        elsewhere.settimeout(WITHIN)
        proxy.point_to(*elsewhere.getsockname())
        with socket.create_connection((HOST, proxy.port), WITHIN) as late:
            other, _ = elsewhere.accept()
            with other:
                late.sendall(b"there")
                assert receive(other, 5) == b"there"
        client.sendall(b"here")
        assert receive(server, 4) == b"here"


def received_before_the_reset(end: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := end.recv(100):
            data += chunk
    return data


def test_a_planned_cut_happens_after_its_byte_of_the_request(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, server = ends
    proxy.cut_by([Cut(after=6)])
    server.sendall(b"the other way does not count")
    receive(client, 28)

    client.sendall(b"four")
    assert receive(server, 4) == b"four"
    client.sendall(b"more")

    assert received_before_the_reset(server) == b"mo"
    assert proxy.cuts == 1
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_planned_cuts_happen_one_after_another_and_then_end(proxy: CuttingProxy, target: socket.socket) -> None:
    proxy.cut_by([Cut(after=1), Cut(after=3, from_target=True)])
    arrived = []
    for _ in range(3):
        with socket.create_connection((HOST, proxy.port), WITHIN) as client:
            server, _address = target.accept()
            with server, contextlib.suppress(OSError):
                client.sendall(b"ask")
                arrived.append(server.recv(3))
                server.sendall(b"answer")
                arrived.append(client.recv(6))

    assert arrived == [b"a", b"ask", b"ans", b"ask", b"answer"]
    assert proxy.cuts == 2


def test_a_target_can_be_set_later(target: socket.socket) -> None:
    with CuttingProxy(HOST, 1) as proxy:
        proxy.point_to(*target.getsockname())
        with socket.create_connection((HOST, proxy.port), WITHIN) as client:
            target.accept()[0].close()
            assert client.recv(1) == b""


def test_new_connections_can_be_refused_while_others_continue(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, server = ends
    proxy.refuse()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port), WITHIN)
    client.sendall(b"still")
    assert receive(server, 5) == b"still"

    proxy.accept()

    socket.create_connection((HOST, proxy.port), WITHIN).close()


def test_held_bytes_arrive_once_released(proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    proxy.hold()
    client.sendall(b"patience")
    server.settimeout(0.2)

    with pytest.raises(TimeoutError):
        server.recv(1)

    server.settimeout(WITHIN)
    proxy.release()

    assert receive(server, 8) == b"patience"


def test_when_one_side_closes_so_does_the_other(ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends

    server.close()

    assert client.recv(1) == b""


def test_an_unavailable_target_closes_the_connection(proxy: CuttingProxy, target: socket.socket) -> None:
    target.close()

    with socket.create_connection((HOST, proxy.port), WITHIN) as client:
        assert client.recv(1) == b""


def test_stopping_leaves_no_thread_and_no_connection(target: socket.socket) -> None:
    with CuttingProxy(*target.getsockname()) as proxy:
        client = socket.create_connection((HOST, proxy.port), WITHIN)

    with client, pytest.raises(ConnectionResetError):
        client.recv(1)
    assert "cutting-proxy" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """The address of a listener that accepts no more connections, as a firewall that drops packets."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def test_a_target_that_does_not_answer_delays_no_other_connection(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket], silent: tuple[str, int]
) -> None:
    client, server = ends
    proxy.point_to(*silent)
    with socket.create_connection((HOST, proxy.port), WITHIN) as waiting:
        client.settimeout(WITHIN / 2)
        client.sendall(b"ping")
        assert receive(server, 4) == b"ping"
        server.sendall(b"pong")
        assert receive(client, 4) == b"pong"

        proxy.cut()
        with pytest.raises(ConnectionResetError):
            waiting.recv(1)


def test_a_client_is_closed_when_its_target_does_not_answer(
    proxy: CuttingProxy, silent: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_connections, "CONNECT_WITHIN", 0.2)
    proxy.point_to(*silent)
    with socket.create_connection((HOST, proxy.port), WITHIN) as waiting:
        assert waiting.recv(1) == b""


def test_a_connection_that_cannot_be_accepted_ends_no_other_one(
    proxy: CuttingProxy, ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = ends
    refused = threading.Event()

    def accept(listener: socket.socket) -> tuple[socket.socket, object]:
        if not refused.is_set():
            refused.set()
            raise OSError(errno.EMFILE, "too many open files")
        return accepted(listener)

    accepted = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", accept)
    with socket.create_connection((HOST, proxy.port), WITHIN):
        assert refused.wait(WITHIN)
        client.sendall(b"ping")
        assert receive(server, 4) == b"ping"


def test_a_proxy_whose_port_is_taken_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = CuttingProxy(HOST, 1)
    with socket.create_server((HOST, proxy.port)), pytest.raises(OSError, match="in use"), proxy:
        pass

    assert proxy._wake.fileno() == proxy._woken.fileno() == -1


def test_all_addresses_of_a_target_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = socket.getaddrinfo

    def two(host: str, port: int, *more: Any, **others: Any) -> Any:
        if host != "two.invalid":
            return found(host, port, *more, **others)
        return [*found("127.0.0.2", port, *more, **others), *found(HOST, port, *more, **others)]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    with socket.create_server((HOST, 0)) as target, CuttingProxy("two.invalid", target.getsockname()[1]) as proxy:
        target.settimeout(10)
        with socket.create_connection((HOST, proxy.port), 10) as client:
            accepted, _ = target.accept()
            with accepted:
                accepted.sendall(b"answer")
                assert client.recv(6) == b"answer"
