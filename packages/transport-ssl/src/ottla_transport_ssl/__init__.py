"""Ottla's encrypted transport: TLS by the standard library, Java's ssl.* keys as they stand."""

from ottla_transport_ssl.layer import TlsLayer
from ottla_transport_ssl.plugin import TlsTransport

__all__ = ["TlsLayer", "TlsTransport"]
__version__ = "0.1.0"
