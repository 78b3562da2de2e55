"""Errors that all codecs share."""

from __future__ import annotations

from ottla.errors import CorruptBatchError, PluginNotFoundError


def malformed(codec: str, reason: object) -> CorruptBatchError:
    """The error for bytes that are not in the codec's format."""
    return CorruptBatchError(f"malformed {codec} data: {reason}")


def too_large(codec: str, limit: int) -> CorruptBatchError:
    """The error for data whose decompressed size exceeds the limit."""
    return CorruptBatchError(f"{codec} data unpacks to more than the {limit} bytes allowed")


def library_missing(codec: str, library: str) -> PluginNotFoundError:
    """The error for a codec whose library is not installed."""
    return PluginNotFoundError(
        f'compression.type={codec} needs the library {library}; try: pip install "ottla[{codec}]"'
    )
