"""Avro schemas, and data in Avro's binary encoding."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
from fastavro.validation import ValidationError, validate

from ottla.errors import printable, quoted
from ottla_serializer_schema_registry.avro.defaults import check_defaults
from ottla_serializer_schema_registry.avro.levels import most_levels
from ottla_serializer_schema_registry.avro.shortest_decimals import LOGICAL_TYPE, with_shortest_decimals
from ottla_serializer_schema_registry.avro.single_fields import record_of
from ottla_serializer_schema_registry.avro.unknown_fields import UnknownFieldError, UnknownFields
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.keys import AVRO_IGNORE_UNKNOWN
from ottla_serializer_schema_registry.nesting import MOST_LEVELS, levels_of, too_deep
from ottla_serializer_schema_registry.registry.references import NamedText

MOST_DIGITS: Final = 38
"""Decimal digits of columns that are written as Avro."""

MOST_REASONS: Final = 5
"""Reasons why data does not fit that an error has: a union has one for each of its types."""

MOST_SHOWN: Final = 100
"""Characters of data, and of a type, in such a reason."""

MOST_FIXED: Final = 2**24
"""Maximum bytes of a fixed: a schema of the registry must not take all memory."""


class AvroSchema:
    """A parsed schema. *named* are all named types that it uses.

    Data with fields that the schema lacks is refused, or written without them if it *ignores_unknown_fields*.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any], *, ignores_unknown_fields: bool = False) -> None:
        self.schema = schema
        self.named = named
        self.name = str(schema["name"]) if isinstance(schema, Mapping) and "name" in schema else None
        self.is_bytes = _is_bytes(schema)
        """Whether data is bytes alone, a decimal among them: they have no length in Confluent's wire format."""

        # fastavro knows named types only below a record, whose bytes are those of its fields.
        self._is_wrapped = bool(named) and not (isinstance(schema, Mapping) and "__fastavro_parsed" in schema)
        self._checked: Any = record_of({"name": "value", "type": schema}, named) if self._is_wrapped else schema
        self._written = with_shortest_decimals(self._checked)
        self.ignores_unknown_fields = ignores_unknown_fields
        self._unknown_fields: UnknownFields | None = None
        if not ignores_unknown_fields:
            whole = self._written["fields"][0]["type"] if self._is_wrapped else self._written
            # A schema without a record has no names, and may be a list.
            its_names = self._written.get("__named_schemas", {}) if isinstance(self._written, Mapping) else {}
            self._unknown_fields = UnknownFields(whole, its_names)
        self.can_be_deep = most_levels(schema, named) > MOST_LEVELS
        """Whether data can have more levels than are encoded, or hold itself."""

    def encode(self, data: Any) -> bytes:
        """Return the data in Avro's binary encoding. Raises ValueError for data that does not fit."""
        if self.is_bytes and isinstance(data, bytes):
            return data
        out = io.BytesIO()
        try:
            if self.can_be_deep:  # fastavro recurses in C, and looks for no end of the stack
                levels_of(data)
            # fastavro writes an int of any size where the schema has 32 bits, and no reader can read that.
            written = {"value": data} if self._is_wrapped else data
            validate(written, self._written)
            if self._unknown_fields is not None:
                self._unknown_fields.check(data)
            fastavro.schemaless_writer(out, self._written, written)
        except ValidationError as error:
            also = self._also_unknown(data)
            raise ValueError(f"it does not fit its Avro schema: {printable(_reasons(error))}{also}") from error
        except UnknownFieldError as error:
            why = printable(str(error))
            raise ValueError(
                f"it does not fit its Avro schema: {why} ({AVRO_IGNORE_UNKNOWN}=true leaves such fields out)"
            ) from None
        except RecursionError:
            raise ValueError(too_deep("Avro")) from None
        except Exception as error:  # of logical types, which raise errors of many types
            field = printable(_failing_field(self.schema, data, self.named), limit=MOST_SHOWN)
            where = f"{field}: " if field else ""
            raise ValueError(
                f"it does not fit its Avro schema: {where}{type(error).__name__}: {printable(str(error))}"
            ) from error
        return without_length(out.getvalue()) if self.is_bytes else out.getvalue()

    def _also_unknown(self, data: Any) -> str:
        """The unknown field of data that does not fit, if it has one: often a missing field, misspelled."""
        try:
            if self._unknown_fields is not None:
                self._unknown_fields.check(data)
        except UnknownFieldError as error:
            return f"; {printable(str(error))}"
        return ""


def _failing_field(schema: Any, data: Any, named: Mapping[str, Any]) -> str:
    """The path of the first field of a record that cannot be written, or "". fastavro names no field for it."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        schema = others[0] if len(others) == 1 else None
    schema = named.get(schema) if isinstance(schema, str) else schema
    if not (isinstance(schema, Mapping) and schema["type"] == "record" and isinstance(data, Mapping)):
        return ""
    for field in schema["fields"]:
        name = field["name"]
        alone = with_shortest_decimals(record_of(field, named))
        try:
            given = {name: data[name]} if name in data else {}
            validate(given, alone)
            fastavro.schemaless_writer(io.BytesIO(), alone, given)
        except Exception:  # of many types
            below = _failing_field(field["type"], data.get(name), named)
            return f"{name}.{below}" if below else str(name)
    return ""


def _is_bytes(schema: Any) -> bool:
    """Whether the type of a parsed schema is bytes, whatever else the schema says, as Confluent's readers ask."""
    return isinstance(schema, Mapping) and schema["type"] == "bytes"


def without_length(written: bytes) -> bytes:
    """Return bytes in Avro's encoding without their length, whose last byte is the first below 128."""
    return written[next(place for place, byte in enumerate(written) if byte < 128) + 1 :]


def is_decimal(schema: Mapping[str, Any]) -> bool:
    """Return whether a type is a valid decimal: Avro ignores a logical type that lacks something."""
    return schema.get("logicalType") == "decimal" and type(schema.get("precision")) is int


def default_bytes(field: Mapping[str, Any], named: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of a field that data lacks, as fastavro writes it; None without a default that it can write."""
    alone = record_of(field, named)
    out = io.BytesIO()
    try:
        validate({}, alone)
        fastavro.schemaless_writer(out, alone, {})
    except Exception:  # of many types; then data must have the field
        return None
    return out.getvalue()


def _reasons(error: ValidationError) -> str:
    return "; ".join(map(_reason, error.errors[:MOST_REASONS]))


def _reason(error: Any) -> str:
    """Why data does not fit: what fastavro says, with the data quoted and short."""
    found = "None" if error.datum is None else f"{printable(repr(error.datum), limit=MOST_SHOWN)}"
    kind = "" if error.datum is None else f" of type {type(error.datum).__name__}"
    where = printable(str(error.field), limit=MOST_SHOWN) or "it"
    return f"{where} is {found}{kind}, expected {printable(_expected(error.schema), limit=MOST_SHOWN)}"


def _expected(schema: Any) -> str:
    if isinstance(schema, Mapping) and schema["type"] == "record":
        return f"a dict with the fields of {schema['name']}"
    return str(schema).replace(LOGICAL_TYPE, "decimal")


def parsed_schema(
    text: str, references: Sequence[NamedText] = (), *, ignores_unknown_fields: bool = False
) -> AvroSchema:
    """Parse a schema. Raises InvalidSchemaError for any text that is not Avro's."""
    named: dict[str, Any] = {}
    try:
        # Schemas may refer to the same one by several names, and fastavro takes no name twice.
        for each in dict.fromkeys(reference.text for reference in references):
            fastavro.parse_schema(json.loads(each), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
        _check_named(named)
        check_defaults(named)
        whole = {"type": parsed} if isinstance(parsed, str) else parsed
        return AvroSchema(whole, named, ignores_unknown_fields=ignores_unknown_fields)
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None
    except Exception as error:  # fastavro raises errors of many types for hostile schemas
        raise InvalidSchemaError(f"it is no Avro schema: {type(error).__name__}: {quoted(str(error))}") from error


def _check_named(named: Mapping[str, Any]) -> None:
    """Raise ValueError for what fastavro does not check."""
    for name, schema in named.items():
        if schema["type"] == "fixed" and not (type(schema["size"]) is int and 0 <= schema["size"] <= MOST_FIXED):
            raise ValueError(f"the size of {name} is no number of bytes up to {MOST_FIXED}")
        if schema["type"] == "enum" and not isinstance(schema["symbols"], list):
            raise ValueError(f"the symbols of {name} are no list")


def record_name(text: str) -> str | None:
    """Return the full name of a record, enum or fixed, without the schemas that it needs; None for other schemas."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = schema.get("name") if isinstance(schema, dict) else None
    if not isinstance(name, str):
        return None
    space = schema.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name
