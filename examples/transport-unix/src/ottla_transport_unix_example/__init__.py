"""The transport for `connection.via=unix`: connects to every broker through the Unix socket of a local relay."""

from ottla_transport_unix_example.plugin import UnixTransport

__all__ = ["UnixTransport"]
__version__ = "0.1.0"
