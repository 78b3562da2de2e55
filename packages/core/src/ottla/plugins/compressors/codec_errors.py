"""What the codecs say when they cannot go on, in one voice."""

from __future__ import annotations

from ottla.errors import CorruptBatch, PluginMissing


def malformed(codec: str, reason: object) -> CorruptBatch:
    """The bytes are not this codec's."""
    return CorruptBatch(f"malformed {codec} data: {reason}")


def too_large(codec: str, limit: int) -> CorruptBatch:
    """Unpacking was stopped."""
    return CorruptBatch(f"{codec} data unpacks to more than the {limit} bytes allowed")


def library_missing(codec: str, library: str) -> PluginMissing:
    """The codec's library is not installed."""
    return PluginMissing(f'compression.type={codec} needs the library {library}; try: pip install "ottla[{codec}]"')
