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
from ottla_transport_http_connect_example.negotiation import OTHER_PROTOCOL, Login, negotiation

ottla_conformance = "ottla_transport_http_connect_example.conformance:HttpConnectConformance"

_ADDRESS: Final = re.compile(
    r"(?:http://)?(?:(?P<name>[^\s:/@\[\]]+)|\[(?P<digits>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})/?"
)


class HttpConnectTransport:
    """Open connections through a proxy; the inner transport has the protocol for the brokers."""

    def __init__(self, proxy: HostTarget, *, login: Login | None, inner: Transport) -> None:
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
        """Return the same for a proxy that is reached over another layer, such as TLS."""
        return TunnelLayer(
            lower,
            negotiation=negotiation(host, port, proxy=self._proxy, login=self._login),
            peer=f"the HTTP proxy {self._proxy}",
            remedy=OTHER_PROTOCOL,
            inner=self._inner,
            host=host,
            port=port,
        )


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the proxy's address, and for the login, if it requires one."""
    return [
        ConfigKey(name="http.connect.proxy", type=_address, default=None, meaning="the proxy, as host:port"),
        ConfigKey(name="http.connect.username", type=_username, default=None, meaning="the login's user name, if any"),
        ConfigKey(name="http.connect.password", type=_text, default=None, meaning="the login's password", secret=True),
    ]


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport:
    """The transport named `http-connect`."""
    if inner is None:
        raise ConfigError(["http-connect is no security.protocol; set connection.via=http-connect"])
    if config["http.connect.proxy"] is None:
        raise ConfigError(["connection.via=http-connect needs http.connect.proxy, as host:port"])
    return HttpConnectTransport(config["http.connect.proxy"], login=_login(config), inner=inner)


def _login(config: PluginConfig) -> Login | None:
    username, password = config["http.connect.username"], config["http.connect.password"]
    if (username is None) != (password is None):
        raise ConfigError(["http.connect.username and http.connect.password go together; set both or neither"])
    return None if username is None else Login(username, password)


def _address(written: Any) -> HostTarget:
    text = str(written).strip()
    if text.startswith("https://"):
        raise ValueError("write host:port; for a proxy behind TLS set connection.via=ssl,http-connect besides")
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ValueError("write host:port, such as proxy.example.com:3128 or [::1]:3128")
    return HostTarget(found["name"] or found["digits"], int(found["port"]))


def _username(written: Any) -> str:
    text = _text(written)
    if ":" in text:
        raise ValueError("it must have no colon, which ends the name in a request (RFC 7617)")
    return text


def _text(written: Any) -> str:
    text = str(written)
    if not text or not text.isprintable():
        raise ValueError("it must have one character at least, and none that cannot be printed")
    return text
