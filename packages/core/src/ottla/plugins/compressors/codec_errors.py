"""Errors that all codecs share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from ottla.errors import CorruptBatchError, PluginNotFoundError

_LIBRARIES: Final = {"lz4": "lz4", "snappy": "cramjam", "zstd": "zstandard"}


def malformed(codec: str, reason: object) -> CorruptBatchError:
    """The error for bytes that are not in the codec's format."""
    return CorruptBatchError(f"malformed {codec} data: {reason}")


def too_large(codec: str, limit: int) -> CorruptBatchError:
    """The error for data whose decompressed size exceeds the limit."""
    return CorruptBatchError(f"{codec} data unpacks to more than the {limit} bytes allowed")


def missing_library(codec: str) -> PluginNotFoundError | None:
    """The error if a codec of the core cannot be made, because its library is not installed. Imports nothing."""
    library = _LIBRARIES.get(codec)
    return None if library is None or find_spec(library) is not None else library_missing(codec)


def library_missing(codec: str) -> PluginNotFoundError:
    """The error for a codec whose library is not installed."""
    return PluginNotFoundError(
        f'compression.type={codec} needs the library {_LIBRARIES[codec]}; try: pip install "ottla[{codec}]"'
    )
