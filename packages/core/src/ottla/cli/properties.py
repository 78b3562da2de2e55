"""Java's properties files as bytes, which are ISO 8859-1 as in `java.util.Properties`."""

from __future__ import annotations

from ottla.config import properties


def read_properties(content: bytes) -> dict[str, str]:
    """The entries; the last one counts if a key is repeated. Raises ValueError, which quotes no value."""
    return properties.read_properties(content.decode("iso-8859-1"))
