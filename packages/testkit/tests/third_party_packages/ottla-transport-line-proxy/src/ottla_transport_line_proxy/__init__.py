"""The transport for `connection.via=line-proxy`."""

from ottla_transport_line_proxy.plugin import LineProxyTransport

__all__ = ["LineProxyTransport"]
