"""The transport for `connection.via=socks5`: connects to every broker through a SOCKS5 proxy."""

from ottla_transport_socks5_example.plugin import Socks5Transport

__all__ = ["Socks5Transport"]
__version__ = "0.1.0"
