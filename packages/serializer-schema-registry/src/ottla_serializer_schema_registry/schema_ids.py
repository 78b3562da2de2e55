"""Where a record says which schema it has: before its data, or in a header."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from ottla.interfaces import Header
from ottla_serializer_schema_registry.errors import RegistryAnswerError
from ottla_serializer_schema_registry.registry.schemas import RegisteredSchema


class IdPlace(StrEnum):
    """The place of a schema's id."""

    PREFIX = "prefix"
    """A byte 0 and the id of the schema, as four bytes, before the data."""

    HEADER = "header"
    """A byte 1 and the GUID of the schema, 16 bytes, in a header; the data alone in the value."""


HEADER_NAMES: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}

_PREFIX: Final = struct.Struct(">bI")
_MAGIC_OF_GUID: Final = b"\1"


def prefix_of(found: RegisteredSchema, indexes: bytes) -> bytes:
    """Return the bytes before the data."""
    return _PREFIX.pack(0, found.id) + indexes


def header_of(found: RegisteredSchema, indexes: bytes, *, part: str) -> Header:
    """Return the header of the record. Raises RegistryAnswerError without a GUID."""
    if found.guid is None:
        raise RegistryAnswerError(
            f"the schema registry gave no GUID for the schema with id {found.id}, which a schema id in a header needs; "
            f"registries have them since Confluent Platform 8.0. Set {part}.schema.id.serializer=prefix"
        )
    return HEADER_NAMES[part], _MAGIC_OF_GUID + found.guid + indexes


def set_header(headers: Sequence[Header] | list[Header], header: Header) -> None:
    """Set a header in place of former ones of the same name, which a record that is passed on may have."""
    assert isinstance(headers, list), "the core gives a list to a serializer that sets headers"
    headers[:] = [each for each in headers if each[0] != header[0]]
    headers.append(header)
