"""The plugin: its three keys, and a transport that connects to the proxy in place of the brokers."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, HostTarget, PluginConfig, Transport, TransportLayer
from ottla.plugins.transports import SocketLayer, TunnelLayer
from ottla_transport_socks5_example.negotiation import MAX_LENGTH, UserPassword, negotiation

ottla_conformance = "ottla_transport_socks5_example.conformance:Socks5Conformance"

_HOST_AND_PORT: Final = re.compile(r"(?:(?P<name>[^\s:/@\[\]]+)|\[(?P<digits>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})")


class Socks5Transport:
    """Open connections through a proxy; the inner transport has the protocol for the brokers."""

    def __init__(self, proxy: HostTarget, *, login: UserPassword | None, inner: Transport) -> None:
        self._target = proxy
        self._proxy = f"[{proxy.host}]:{proxy.port}" if ":" in proxy.host else f"{proxy.host}:{proxy.port}"
        self._login = login
        self._inner = inner

    def targets(self, host: str, port: int) -> Sequence[HostTarget]:
        """Return the proxy, for every broker; the core resolves its name again for each attempt."""
        return [self._target]

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return a layer that connects through the proxy, then passes the socket to the inner transport."""
        return self.open_over(SocketLayer(sock), host, port)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Return the same for a proxy that is reached over another layer, such as a tunnel through a first proxy."""
        return TunnelLayer(
            lower,
            negotiation=negotiation(host, port, proxy=self._proxy, login=self._login),
            peer=f"the SOCKS5 proxy {self._proxy}",
            remedy="check socks5.proxy; is it a SOCKS5 proxy?",
            inner=self._inner,
            host=host,
            port=port,
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
    return Socks5Transport(config["socks5.proxy"], login=_login(config), inner=inner)


def _login(config: PluginConfig) -> UserPassword | None:
    username, password = config["socks5.username"], config["socks5.password"]
    if (username is None) != (password is None):
        raise ConfigError(["socks5.username and socks5.password go together; set both or neither"])
    return None if username is None else UserPassword(username, password)


def _host_and_port(written: Any) -> HostTarget:
    found = _HOST_AND_PORT.fullmatch(str(written).strip())
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ValueError("write host:port, such as proxy.example.com:1080 or [::1]:1080")
    return HostTarget(found["name"] or found["digits"], int(found["port"]))


def _short(written: Any) -> bytes:
    text = str(written).encode()
    if not 0 < len(text) <= MAX_LENGTH:
        raise ValueError(f"it must have 1 to {MAX_LENGTH} bytes")
    return text
