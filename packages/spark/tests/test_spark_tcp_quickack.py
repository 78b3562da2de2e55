"""Rows that Spark sends are acknowledged at once. The kernel reports for a connection whether it does that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from ottla_spark.worker.tcp_quickack import (
    DESCRIPTORS,
    LocalConnection,
    acknowledged,
    local_connections,
    with_tcp_quickack,
)

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be asked")


@attrs.frozen
class Line:
    """The two ends of a connection within this machine."""

    spark: socket.socket
    worker: socket.socket

    @property
    def found(self) -> LocalConnection:
        """The worker's end, as it is found among the descriptors of the process."""
        number = self.worker.fileno()
        return LocalConnection(number, os.fstat(number).st_ino)

    def quick(self) -> bool:
        return bool(self.worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    def slow_down(self) -> None:
        """Have the kernel put acknowledgements off, as it does of itself where two ends talk in turns."""
        self.worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


def _connected(host: str = "127.0.0.1") -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        return socket.create_connection(listening.getsockname()[:2]), listening.accept()[0]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(params=["127.0.0.1", "::1"])
def line(stack: ExitStack, request: pytest.FixtureRequest) -> Line:
    try:
        return Line(*map(stack.enter_context, _connected(request.param)))
    except OSError:
        pytest.skip(f"{request.param} is no address of this machine")


def names_found() -> list[Any]:
    """The addresses of the connections that are found."""
    names = []
    for each in local_connections():
        with socket.socket(fileno=os.dup(each.descriptor)) as copy:
            names.append(copy.getsockname())
    return names


def test_tcp_quickack_is_set_before_each_batch_and_after_the_last(line: Line) -> None:
    quick = []

    def batches() -> Iterator[int]:
        for number in range(2):
            quick.append(line.quick())
            yield number
        quick.append(line.quick())

    line.slow_down()
    for _ in acknowledged(batches(), [line.found]):
        line.slow_down()

    assert quick == [True, True, True]


def test_the_batches_are_unchanged(line: Line) -> None:
    assert list(acknowledged(iter("abc"), [line.found])) == ["a", "b", "c"]
    assert list(with_tcp_quickack(iter("abc"))) == ["a", "b", "c"]


def test_a_connection_that_closes_meanwhile_is_ignored(line: Line) -> None:
    found = line.found
    line.worker.close()

    assert list(acknowledged(iter("abc"), [found])) == ["a", "b", "c"]


def test_another_connection_with_the_number_of_a_closed_one_is_left_alone(line: Line, stack: ExitStack) -> None:
    found, number = line.found, line.worker.fileno()
    other = Line(*map(stack.enter_context, _connected()))
    os.dup2(other.worker.fileno(), number)
    other.slow_down()
    assert list(acknowledged(iter("abc"), [found])) == ["a", "b", "c"]

    assert not other.quick()


def test_a_default_timeout_of_the_program_changes_no_connection(line: Line) -> None:
    """A library of the worker may set one. With it, a new socket object sets its connection to non-blocking."""
    before, worker, timeout = local_connections(), line.worker.fileno(), socket.getdefaulttimeout()
    socket.setdefaulttimeout(10.0)
    try:
        found = local_connections()
        blocking = [os.get_blocking(worker)]
        for _ in acknowledged(iter("ab"), before):
            blocking.append(os.get_blocking(worker))
    finally:
        socket.setdefaulttimeout(timeout)

    assert found == ()
    assert blocking == [True, True, True]


def test_a_program_can_end_a_connection_of_its_own(line: Line) -> None:
    """A service of this machine, such as a database, must see its end; the worker lives on for hours."""
    found = local_connections()
    line.spark.settimeout(30)
    for _ in acknowledged(iter("ab"), found):
        line.worker.close()

    assert line.spark.recv(1) == b""


def test_connections_within_the_machine_are_found(line: Line) -> None:
    assert {line.spark.getsockname(), line.worker.getsockname()} <= set(names_found())


def test_a_connection_with_several_descriptors_is_found_once(line: Line, stack: ExitStack) -> None:
    again = stack.enter_context(line.worker.dup())

    assert names_found().count(again.getsockname()) == 1


def test_a_connection_stays_open_after_its_acknowledgement(line: Line) -> None:
    for each in local_connections():
        each.acknowledge()
    line.spark.sendall(b"row")

    assert line.worker.recv(3) == b"row"


def test_no_examined_descriptor_stays_open(line: Line) -> None:
    pipe = list(map(os.fdopen, os.pipe(), "rw"))
    before = len(os.listdir(DESCRIPTORS))
    for each in local_connections():
        each.acknowledge()

    assert len(os.listdir(DESCRIPTORS)) == before
    for end in pipe:
        end.close()


def test_a_descriptor_that_makes_no_socket_is_closed(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**options: int) -> socket.socket:
        raise OSError("the process has no right to read its options")

    before = len(os.listdir(DESCRIPTORS))
    monkeypatch.setattr(socket, "socket", refused)

    assert local_connections() == ()
    assert len(os.listdir(DESCRIPTORS)) == before


def test_listeners_and_non_tcp_sockets_are_skipped(stack: ExitStack) -> None:
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    unix, _other = map(stack.enter_context, socket.socketpair())
    datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    datagrams.connect(listening.getsockname())
    names = names_found()

    assert listening.getsockname() not in names
    assert unix.getsockname() not in names
    assert datagrams.getsockname() not in names
