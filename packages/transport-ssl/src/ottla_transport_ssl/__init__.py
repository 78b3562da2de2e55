"""Ottla's encrypted transport: TLS by the standard library, Java's ssl.* keys as they stand."""

__version__ = "0.1.0"
