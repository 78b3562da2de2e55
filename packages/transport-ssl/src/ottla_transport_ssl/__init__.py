"""Ottla's TLS transport, based on the standard library, with Java's ssl.* keys."""

from ottla_transport_ssl.plugin import TlsTransport
from ottla_transport_ssl.tls_layer import TlsLayer

__all__ = ["TlsLayer", "TlsTransport"]
__version__ = "0.1.0"
