"""The headers of one record, encoded: their number, then the name and value of each, with their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import InvalidRecordError
from ottla.interfaces import Header
from ottla.protocol.primitives import varint

_NAMES_KEPT: Final = 1000
_LONGEST_NAME_KEPT: Final = 100
_names: dict[str, bytes] = {}
"""The encoded names of headers with their sizes; the first ones seen."""


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The headers of one record as bytes, in the format of the last field of a record."""
    parts = [varint(len(headers))]
    for name, content in headers:
        start = _names.get(name) or _header_name(name)
        parts += (start, b"\1") if content is None else (start, varint(len(content)), content)
    return b"".join(parts)


def _header_name(name: str) -> bytes:
    """The encoded name of a header with its size. Programs have few names."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecordError(f"the header name {name!r} cannot be written as UTF-8: {error}") from error
    start = varint(len(encoded)) + encoded
    if len(_names) < _NAMES_KEPT and len(name) <= _LONGEST_NAME_KEPT:
        _names[name] = start
    return start
