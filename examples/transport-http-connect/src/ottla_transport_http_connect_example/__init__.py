"""The transport for `connection.via=http-connect`: connects to every broker through an HTTP proxy, by CONNECT."""

from ottla_transport_http_connect_example.plugin import HttpConnectTransport

__all__ = ["HttpConnectTransport"]
__version__ = "0.1.0"
