"""The plugin: its keys, and a transport that connects to the brokers through a line proxy."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import ConfigError, printable
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    ConfigKey,
    HostTarget,
    PluginConfig,
    Secret,
    SupportsOpenOver,
    Transport,
    TransportLayer,
)
from ottla.plugins.transports import SocketLayer, TunnelLayer

from ottla_transport_line_proxy.negotiation import negotiation, one_word

ottla_conformance = "ottla_transport_line_proxy.conformance:LineProxyConformance"

NAME: Final = "line-proxy"
ADDRESS: Final = "line.proxy.address"
TOKEN: Final = "line.proxy.token"


class LineProxyTransport(SupportsOpenOver):
    """Open the connections of one producer; the inner transport has the protocol for the brokers."""

    def __init__(self, address: HostTarget, *, token: Secret[str], inner: Transport) -> None:
        self._address = address
        self._proxy = f"the line proxy {printable(address.host)}:{address.port}"
        self._token = token
        self._inner = inner

    def targets(self, host: str, port: int) -> Sequence[HostTarget]:
        """Return the proxy's address, whatever the broker is."""
        return [self._address]

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return a layer for the socket, which is connected to the proxy; host and port are the broker's."""
        return self.open_over(SocketLayer(sock), host, port)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Return the same over another layer, such as TLS to the proxy."""
        return TunnelLayer(
            lower,
            negotiation=negotiation(host, port, token=self._token, proxy=self._proxy),
            peer=self._proxy,
            remedy=f"check {ADDRESS} and {TOKEN}",
            inner=self._inner,
            host=host,
            port=port,
        )


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the proxy's address and its token."""
    return [
        ConfigKey(name=ADDRESS, type=_host_and_port, default=None, meaning="the proxy, as host:port"),
        ConfigKey(name=TOKEN, type=_token, default=None, meaning="what the proxy wants to see", secret=True),
    ]


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `line-proxy`."""
    if inner is None:
        raise ConfigError([f"{NAME} is no security.protocol; set connection.via={NAME}"])
    address, token = config[ADDRESS], config[TOKEN]
    problems = []
    if address is None:
        problems.append(f"{ADDRESS} is missing; set it to the proxy's host:port")
    if token is None:
        problems.append(f"{TOKEN} is missing; set it to the token that the proxy expects")
    if problems:
        raise ConfigError(problems)
    return LineProxyTransport(address, token=token, inner=inner)


def _host_and_port(written: Any) -> HostTarget:
    host, _, port = str(written).strip().rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise ValueError("write host:port, such as proxy.example.com:9000")
    return HostTarget(host.removeprefix("[").removesuffix("]"), int(port))


def _token(written: Any) -> Secret[str]:
    if not isinstance(written, str) or not one_word(written):
        raise ValueError("a token is text of printable ASCII characters without spaces")
    return Secret(written)
