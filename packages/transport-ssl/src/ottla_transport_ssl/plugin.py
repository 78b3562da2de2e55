"""The plugin: TLS for `security.protocol=SSL` and `SASL_SSL`."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Iterator, Sequence

from ottla.errors import TlsHandshakeError, printable, quoted
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, PluginContext, Target, Transport, TransportLayer
from ottla_transport_ssl.context_reload import Setups
from ottla_transport_ssl.keys import KEYS, read
from ottla_transport_ssl.tls_layer import TlsLayer, TlsOverLayer

ottla_conformance = "ottla_transport_ssl.conformance:TlsConformance"

logger = logging.getLogger(__name__)


class TlsTransport:
    """Open TLS connections, each with the current contents of the files."""

    def __init__(self, setups: Setups) -> None:
        self._setups = setups

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """Return None: names are resolved as usual."""
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return a layer for the connected socket, which may go through a proxy."""
        with _naming_server(host):
            return TlsLayer(sock, setup=self._setups.current(), peer=_peer(host, port), server_name=server_name(host))

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Return a layer over another one, for example TLS in TLS."""
        setup, peer = self._setups.current(), _peer(host, port)
        with _naming_server(host):
            return TlsOverLayer(lower, setup=setup, peer=peer, server_name=server_name(host))


def _peer(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _naming_server(host: str) -> Iterator[None]:
    try:
        yield
    except ValueError as cause:
        raise TlsHandshakeError(
            f"{quoted(host)} cannot be the name of a TLS server: {printable(str(cause))}"
        ) from cause


def server_name(host: str) -> str:
    """Return the name as in certificates: without a trailing dot, or an address without its zone."""
    address = host.partition("%")[0]
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return host.removesuffix(".")


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Java's ssl.* keys."""
    return KEYS


@hookimpl
def ottla_transport(config: PluginConfig, inner: Transport | None, context: PluginContext) -> Transport:
    """The transport named `ssl`."""
    settings = read(config)
    if not settings.check_host_names:
        logger.warning(
            "ssl.endpoint.identification.algorithm is empty: any host with a trusted certificate can pass for a broker"
        )
    return TlsTransport(Setups(settings, client_id=context.client_id or "producer"))
