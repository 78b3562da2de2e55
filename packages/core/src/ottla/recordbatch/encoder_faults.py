"""Checked calls and errors of encoders that break their contract, with plugin and package."""

from __future__ import annotations

from typing import Final

from ottla.errors import InvalidPluginError, OttlaError
from ottla.errors.plugin_origin import described, faults, origin_of
from ottla.errors.quoting import class_name
from ottla.interfaces import Columns, Encoded

_BYTES: Final = (bytes, bytearray, memoryview)


def encoded_by(columns: Columns, magic: int) -> Encoded:
    """The encoded records. Raises InvalidPluginError for a fault of the encoder."""
    try:
        encoded = columns.encode(magic)
    except (OttlaError, MemoryError):  # a lack of memory is no fault of the encoder
        raise
    except faults() as cause:
        raise encoder_failed(columns, "encode", cause) from cause
    if not isinstance(encoded, Encoded):
        raise encoder_fault(columns, f"returned {class_name(encoded)} in encode, not an ottla.interfaces.Encoded")
    for chunk in encoded.chunks:  # without `all` and a generator: this is done for each batch
        if not isinstance(chunk, _BYTES):
            raise encoder_fault(columns, "returned chunks in encode that are not all bytes")
    return encoded


def encoder_failed(made: object, method: str, cause: BaseException) -> InvalidPluginError:
    """The error for an exception of a method of an encoder, or of its columns."""
    return encoder_fault(made, f"failed in {method}: {described(cause)}")


def encoder_fault(made: object, what: str) -> InvalidPluginError:
    """The error for an encoder, or its columns, that did *what*."""
    origin = origin_of("encoder", made)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
