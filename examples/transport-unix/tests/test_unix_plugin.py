"""The plugin as the core sees it: found by name, its key checked, its one target the relay's socket."""

from __future__ import annotations

import os
import pathlib
import socket
import tempfile
from typing import Any

import pytest

from ottla import check_config
from ottla.errors import ConfigError
from ottla.interfaces import Target, Transport, TransportLayer
from ottla.plugins.registry import Registry
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_unix_example import UnixTransport
from ottla_transport_unix_example.plugin import MAX_PATH

GOOD = {"bootstrap.servers": "kafka:9092", "connection.via": "unix", "unix.path": "/run/kafka.sock"}


class NotingTransport(PlaintextTransport):
    """Notes what it was asked to open."""

    def __init__(self) -> None:
        self.opened: list[tuple[socket.socket, str, int]] = []

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        self.opened.append((sock, host, port))
        return super().open(sock, host, port)


def test_the_plugin_is_found_by_its_connection_via_name() -> None:
    plugin = Registry().plugin("transport", "unix")
    transport = plugin.create({"unix.path": "/run/kafka.sock"}, inner=PlaintextTransport())

    assert plugin.distribution == "ottla-transport-unix-example"
    assert isinstance(transport, UnixTransport)
    assert isinstance(transport, Transport)


def test_every_broker_is_reached_through_the_relay() -> None:
    transport = UnixTransport("/run/kafka.sock", inner=PlaintextTransport())

    assert transport.targets("kafka", 9092) == [Target(socket.AF_UNIX, "/run/kafka.sock")]
    assert transport.targets("another", 9093) == [Target(socket.AF_UNIX, "/run/kafka.sock")]


def test_the_inner_transport_gets_the_broker_name_not_the_relay() -> None:
    ours, theirs = socket.socketpair()
    inner = NotingTransport()
    layer = UnixTransport("/run/kafka.sock", inner=inner).open(ours, "kafka", 9092)

    assert inner.opened == [(ours, "kafka", 9092)]
    layer.close()
    theirs.close()


@pytest.mark.parametrize("path", ["/run/kafka.sock", "kafka.sock", pathlib.Path("/run/kafka.sock"), "/" + "x" * 102])
def test_the_path_is_the_only_required_key(path: str | os.PathLike[str]) -> None:
    check_config({**GOOD, "unix.path": path})


def test_the_longest_path_that_is_accepted_works_with_the_system() -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-") as folder, socket.socket(socket.AF_UNIX) as sock:
        path = os.path.join(folder, "x" * (MAX_PATH - len(folder) - 1))
        sock.bind(path)
        check_config({**GOOD, "unix.path": path})

    assert len(path) == MAX_PATH


@pytest.mark.parametrize("path", ["", "x" * 104, "ä" * 52, b"/run/kafka.sock", 7])
def test_an_impossible_socket_path_is_refused(path: Any) -> None:
    with pytest.raises(ConfigError, match=r"unix\.path="):
        check_config({**GOOD, "unix.path": path})


def test_a_path_is_required() -> None:
    with pytest.raises(ConfigError, match=r"connection\.via=unix needs unix\.path"):
        check_config({**GOOD, "unix.path": None})


def test_the_plugin_is_not_available_as_a_security_protocol() -> None:
    with pytest.raises(ConfigError, match=r"set connection\.via=unix"):
        Registry().plugin("transport", "unix").create({}, inner=None)
