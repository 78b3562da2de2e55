"""The transport for `security.protocol=PLAINTEXT`."""

from ottla_transport_plaintext.plugin import PlaintextTransport

__all__ = ["PlaintextTransport"]
__version__ = "0.1.0"
