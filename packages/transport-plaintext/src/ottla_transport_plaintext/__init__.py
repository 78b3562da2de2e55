"""The transport for `security.protocol=PLAINTEXT`."""

from ottla_transport_plaintext.plugin import PlaintextLayer, PlaintextTransport

__all__ = ["PlaintextLayer", "PlaintextTransport"]
__version__ = "0.1.0"
