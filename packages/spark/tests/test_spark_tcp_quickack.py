"""Rows that Spark sends are acknowledged at once. The kernel reports for a connection whether it does that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import attrs
import pytest

from ottla_spark.worker.tcp_quickack import DESCRIPTORS, acknowledged, local_connections, with_tcp_quickack

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be asked")


@attrs.frozen
class Line:
    """The two ends of a connection within this machine."""

    spark: socket.socket
    worker: socket.socket

    def quick(self) -> bool:
        return bool(self.worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    def slow_down(self) -> None:
        """Have the kernel put acknowledgements off, as it does of itself where two ends talk in turns."""
        self.worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(params=["127.0.0.1", "::1"])
def line(stack: ExitStack, request: pytest.FixtureRequest) -> Line:
    host: str = request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = stack.enter_context(socket.create_server((host, 0), family=family))
    except OSError:
        pytest.skip(f"{host} is no address of this machine")
    spark = stack.enter_context(socket.create_connection(listening.getsockname()[:2]))
    worker = stack.enter_context(listening.accept()[0])
    return Line(spark, worker)


def found(stack: ExitStack) -> list[socket.socket]:
    return [stack.enter_context(each) for each in local_connections()]


def test_tcp_quickack_is_set_before_each_batch_and_after_the_last(line: Line) -> None:
    quick = []

    def batches() -> Iterator[int]:
        for number in range(2):
            quick.append(line.quick())
            yield number
        quick.append(line.quick())

    line.slow_down()
    for _ in acknowledged(batches(), [line.worker]):
        line.slow_down()

    assert quick == [True, True, True]


def test_the_batches_are_unchanged(line: Line) -> None:
    assert list(acknowledged(iter("abc"), [line.worker])) == ["a", "b", "c"]
    assert list(with_tcp_quickack(iter("abc"))) == ["a", "b", "c"]


def test_a_connection_that_closes_meanwhile_is_ignored(line: Line) -> None:
    line.worker.close()

    assert list(acknowledged(iter("abc"), [line.worker])) == ["a", "b", "c"]


def test_connections_within_the_machine_are_found(line: Line, stack: ExitStack) -> None:
    names = {each.getsockname() for each in found(stack)}

    assert {line.spark.getsockname(), line.worker.getsockname()} <= names


def test_a_connection_with_several_descriptors_is_found_once(line: Line, stack: ExitStack) -> None:
    again = stack.enter_context(line.worker.dup())
    names = [each.getsockname() for each in found(stack)]

    assert names.count(again.getsockname()) == 1


def test_a_found_connection_can_be_closed_without_the_original(line: Line) -> None:
    for each in local_connections():
        each.close()
    line.spark.sendall(b"row")

    assert line.worker.recv(3) == b"row"


def test_no_examined_descriptor_stays_open(line: Line, stack: ExitStack) -> None:
    pipe = list(map(os.fdopen, os.pipe(), "rw"))
    before = len(os.listdir(DESCRIPTORS))
    many = len(found(stack))

    assert len(os.listdir(DESCRIPTORS)) == before + many
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
    names = [each.getsockname() for each in found(stack)]

    assert listening.getsockname() not in names
    assert unix.getsockname() not in names
    assert datagrams.getsockname() not in names
