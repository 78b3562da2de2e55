"""The plugin: its three keys, and a transport that connects to the proxy in place of the brokers."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, Target, Transport, TransportLayer
from ottla_transport_socks5_example.layer import Socks5Layer
from ottla_transport_socks5_example.negotiation import MAX_LENGTH, UserPassword, negotiation

HostAndPort: TypeAlias = tuple[str, int]

ottla_conformance = "ottla_transport_socks5_example.conformance:Socks5Conformance"

_HOST_AND_PORT: Final = re.compile(r"(?:(?P<name>[^\s:/@\[\]]+)|\[(?P<digits>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})")


class Socks5Transport:
    """Open connections through a proxy; the inner transport has the protocol for the brokers."""

    def __init__(self, targets: Sequence[Target], *, proxy: str, login: UserPassword | None, inner: Transport) -> None:
        self._targets = targets
        self._proxy = proxy
        self._login = login
        self._inner = inner

    def targets(self, host: str, port: int) -> Sequence[Target]:
        """Return the proxy's addresses, for every broker."""
        return self._targets

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return a layer that connects through the proxy, then passes the socket to the inner transport."""
        return Socks5Layer(
            sock,
            negotiation=negotiation(host, port, proxy=self._proxy, login=self._login),
            proxy=self._proxy,
            open_inner=lambda: self._inner.open(sock, host, port),
        )


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the proxy's address, and for the login, if it requires one."""
    return [
        ConfigKey(name="socks5.proxy", type=_host_and_port, default=None, meaning="the proxy, as host:port"),
        ConfigKey(name="socks5.username", type=_short, default=None, meaning="the login's user name, if any"),
        ConfigKey(name="socks5.password", type=_short, default=None, meaning="the login's password", secret=True),
    ]


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `socks5`."""
    if inner is None:
        raise ConfigError(["socks5 is no security.protocol; set connection.via=socks5"])
    if config["socks5.proxy"] is None:
        raise ConfigError(["connection.via=socks5 needs socks5.proxy, as host:port"])
    host, port = config["socks5.proxy"]
    proxy = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Socks5Transport(_look_up(host, port), proxy=proxy, login=_login(config), inner=inner)


def _login(config: PluginConfig) -> UserPassword | None:
    username, password = config["socks5.username"], config["socks5.password"]
    if (username is None) != (password is None):
        raise ConfigError(["socks5.username and socks5.password go together; set both or neither"])
    return None if username is None else UserPassword(username, password)


def _look_up(host: str, port: int) -> Sequence[Target]:
    """Resolve now, on the caller's thread: `targets` runs on the I/O thread, which must not wait for names."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as cause:
        raise ConfigError([f"socks5.proxy: the name {host!r} has no address: {cause}"]) from cause
    return [Target(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found]


def _host_and_port(written: Any) -> HostAndPort:
    found = _HOST_AND_PORT.fullmatch(str(written).strip())
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ValueError("write host:port, such as proxy.example.com:1080 or [::1]:1080")
    return found["name"] or found["digits"], int(found["port"])


def _short(written: Any) -> bytes:
    text = str(written).encode()
    if not 0 < len(text) <= MAX_LENGTH:
        raise ValueError(f"it must have 1 to {MAX_LENGTH} bytes")
    return text
