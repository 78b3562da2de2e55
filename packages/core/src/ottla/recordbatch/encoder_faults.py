"""Checked calls and errors of encoders that break their contract, with plugin and package."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import attrs

from ottla.errors import InvalidPluginError, OttlaError, counted
from ottla.errors.plugin_origin import described, faults, origin_of
from ottla.errors.quoting import class_name
from ottla.interfaces import Columns, Encoded, Facts
from ottla.recordbatch.record_limits import TIMESTAMP_MAX

_BYTES: Final = (bytes, bytearray, memoryview)

_SMALLEST_RECORD: Final = 7
"""The bytes of a record without key, value and headers in format v2; the older formats take more."""


def encoded_by(columns: Columns, magic: int) -> Encoded:
    """The encoded records. An exception of the core's own encoders, or of ottla-accel, is an InvalidPluginError.

    What third-party encoders return and raise is checked before (`LockedColumns`).
    """
    try:
        return columns.encode(magic)
    except (OttlaError, MemoryError):  # a lack of memory is no fault of the encoder
        raise
    except faults() as cause:
        raise encoder_failed(columns, "encode", cause) from cause


def checked_encoded(columns: Columns, encoded: object, *, count: int) -> Encoded:
    """What third-party columns returned in `encode` for *count* records.

    Raises InvalidPluginError if it cannot be them: a record that is in no batch could be acknowledged.
    """
    if not isinstance(encoded, Encoded):
        raise encoder_fault(columns, f"returned {class_name(encoded)} in encode, not an ottla.interfaces.Encoded")
    chunks: Any = encoded.chunks
    if not isinstance(chunks, Sequence) or isinstance(chunks, (str, *_BYTES)):
        raise encoder_fault(columns, f"returned {class_name(chunks)} as chunks in encode, not a list of bytes")
    if type(chunks) not in (list, tuple):  # which others need not return twice
        try:
            chunks = list(chunks)
        except faults() as cause:
            raise encoder_failed(columns, "the chunks of encode", cause) from cause
        encoded = attrs.evolve(encoded, chunks=chunks)
    if not all(map(_is_bytes, chunks)):
        raise encoder_fault(columns, "returned chunks in encode that are not all bytes")
    for name in ("count", "first_timestamp", "max_timestamp"):
        number: object = getattr(encoded, name)
        if type(number) is not int:
            raise encoder_fault(columns, f"returned {class_name(number)} as {name} in encode, not an int")
    first, latest = encoded.first_timestamp, encoded.max_timestamp
    if encoded.count != count:
        raise encoder_fault(columns, f"returned count={encoded.count} in encode for {counted(count, 'record')}")
    size = sum(map(len, chunks))
    if size < count * _SMALLEST_RECORD:
        what = f"returned {counted(size, 'byte')} in encode for {counted(count, 'record')}, which take more"
        raise encoder_fault(columns, what)
    if not -1 <= first <= latest <= TIMESTAMP_MAX:
        what = f"returned first_timestamp={first} and max_timestamp={latest} in encode"
        raise encoder_fault(columns, f"{what}, which are from -1 to {TIMESTAMP_MAX}, the latest one last")
    return encoded


def checked_facts(columns: Columns, facts: Any, *, count: int) -> Facts:
    """What third-party columns returned in `facts`, as numbers that need no call of the encoder any more.

    Raises InvalidPluginError if they are not those of *count* records.
    """
    if not isinstance(facts, Facts):
        raise encoder_fault(columns, f"returned {class_name(facts)} in facts, not an ottla.interfaces.Facts")
    found: dict[str, array[int] | None] = {}
    numbers: Any
    for name, numbers in zip(Facts._fields, facts, strict=True):
        if numbers is None and name == "key_sizes":
            found[name] = None
            continue
        try:  # with `iter`, because an array takes bytes as the memory of its numbers
            found[name] = column = array("q", islice(iter(numbers), count + 1))
        except (OttlaError, MemoryError):
            raise
        except faults() as cause:
            raise encoder_fault(columns, f"returned {name} in facts that are no numbers: {described(cause)}") from cause
        if len(column) != count:
            more = "more" if len(column) > count else str(len(column))
            raise encoder_fault(columns, f"returned {more} {name} in facts for {counted(count, 'record')}")
    return Facts(**found)  # type: ignore[arg-type]  # only key_sizes are None


def _is_bytes(chunk: object) -> bool:
    """Return whether `len` of a chunk is the number of its bytes, and a socket takes it."""
    if isinstance(chunk, memoryview):
        return chunk.contiguous and chunk.itemsize == 1 and chunk.ndim == 1
    return isinstance(chunk, bytes | bytearray)


def encoder_failed(made: object, method: str, cause: BaseException) -> InvalidPluginError:
    """The error for an exception of a method of an encoder, or of its columns."""
    return encoder_fault(made, f"failed in {method}: {described(cause)}")


def encoder_fault(made: object, what: str) -> InvalidPluginError:
    """The error for an encoder, or its columns, that did *what*."""
    origin = origin_of("encoder", made)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
