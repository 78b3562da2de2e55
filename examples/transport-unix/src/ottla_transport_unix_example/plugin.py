"""Connections to brokers through a Unix socket, where a local relay forwards the bytes.

There is no layer here: the inner transport gets the connected socket unchanged.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, Target, Transport, TransportLayer

ottla_conformance = "ottla_transport_unix_example.conformance:UnixConformance"

MAX_PATH: Final = 103
"""Maximum bytes of a path on every system, without the zero at the end; Linux allows four bytes more."""


class UnixTransport:
    """Connect to one path; the inner transport has the protocol for the brokers."""

    def __init__(self, path: str, *, inner: Transport) -> None:
        self._path = path
        self._inner = inner

    def targets(self, host: str, port: int) -> Sequence[Target]:
        """Return the relay's socket, for every broker."""
        if sys.platform == "win32":  # where the hook makes no transport
            return []
        return [Target(socket.AF_UNIX, self._path)]

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return the inner transport's layer, for the broker and not for the relay."""
        return self._inner.open(sock, host, port)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the relay's path."""
    return [ConfigKey(name="unix.path", type=_path, default=None, meaning="the path of the relay's socket")]


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `unix`."""
    if inner is None:
        raise ConfigError(["unix is no security.protocol; set connection.via=unix"])
    if config["unix.path"] is None:
        raise ConfigError(["connection.via=unix needs unix.path, the path of the relay's socket"])
    if sys.platform == "win32":
        raise ConfigError(["connection.via=unix cannot be used on Windows: Python has no Unix sockets there"])
    return UnixTransport(config["unix.path"], inner=inner)


def _path(written: Any) -> str:
    path = os.fspath(written)
    if not isinstance(path, str) or not 0 < len(os.fsencode(path)) <= MAX_PATH:
        raise ValueError(f"it must be a path of 1 to {MAX_PATH} bytes")
    return path
