"""Waiting for sockets: on time, and never past what has happened."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from ottla.network.selector.socket_wait import LONG, Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch(time.monotonic)
    yield made
    made.close()


@pytest.fixture
def pair(watch: Watch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends; the first is watched."""
    near, far = socket.socketpair()
    with near, far:
        watch.register(near, selectors.EVENT_READ, "near")
        yield near, far


WAITS = [0.0, 0.0004, 0.001, 0.0014, 0.02, LONG]


@pytest.mark.rule("selector.poll.on-time")
@pytest.mark.parametrize("timeout", WAITS)
def test_an_event_ends_a_wait(watch: Watch, pair: tuple[socket.socket, socket.socket], timeout: float) -> None:
    pair[1].send(b"x")

    assert [(key.data, events) for key, events in watch.select(timeout)] == [("near", selectors.EVENT_READ)]


@pytest.mark.rule("selector.poll.on-time")
@pytest.mark.parametrize("timeout", WAITS)
def test_without_an_event_a_wait_lasts_its_timeout(
    watch: Watch, pair: tuple[socket.socket, socket.socket], timeout: float
) -> None:
    began = time.monotonic()

    assert watch.select(timeout) == []
    assert time.monotonic() - began >= timeout


@pytest.mark.rule("selector.poll.on-time")
def test_a_wait_is_not_rounded_up_to_whole_milliseconds(watch: Watch) -> None:
    def wait() -> float:
        began = time.monotonic()
        watch.select(0.0011)
        return time.monotonic() - began

    assert min(wait() for _ in range(100)) < 0.002
