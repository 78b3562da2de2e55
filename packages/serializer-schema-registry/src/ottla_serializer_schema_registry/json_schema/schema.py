"""JSON schemas, and data as JSON that is checked against them."""

from __future__ import annotations

import itertools
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ottla.errors import PluginNotFoundError, printable, quoted
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.registry.references import NamedText

MOST_REASONS: Final = 5
MOST_CHARACTERS: Final = 300

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


class JsonSchema:
    """A schema with its validator. Without `$schema` it is Draft 7, as for Confluent's serializers."""

    def __init__(self, schema: Any, validator: Any) -> None:
        self.schema = schema
        self._validator = validator
        title = schema.get("title") if isinstance(schema, Mapping) else None
        self.name = title if isinstance(title, str) else None

    def encode(self, data: Any) -> bytes:
        """Return the data as JSON. Raises ValueError for data that does not fit, TypeError for what is no JSON.

        Fields that are None are left out, as in rows of columns; if the schema does not allow that, they are null.
        """
        text = json_text(data)
        # The word may also be in a text, which `_without_nulls` finds out.
        shorter = _without_nulls(text) if "null" in text else text
        problem = self.problem(shorter)
        if problem is None:
            return shorter.encode()
        if shorter is not text and (problem := self.problem(text)) is None:
            return text.encode()
        raise ValueError(f"it does not fit its JSON schema: {problem}")

    def problem(self, text: str) -> str | None:
        """Return why a JSON text does not fit, None if it does. What is sent is checked: dates are text there."""
        sent = json.loads(text)
        if self._validator.is_valid(sent):
            return None
        reasons = []
        for error in self._validator.iter_errors(sent):
            where = "".join(f"[{step!r}]" for step in error.instance_path)
            reasons.append(f"{where} {_message(error, sent)}".strip())
            if len(reasons) == MOST_REASONS:
                break
        return printable("; ".join(reasons))


def _message(error: Any, sent: Any) -> str:
    """Why data does not fit, as the library says it, and shorter. It does not name properties if none may be there."""
    shown = str(error.message[:MOST_CHARACTERS])
    if not shown.startswith("False schema") or list(error.schema_path)[-1:] != ["additionalProperties"]:
        return shown
    for step in error.instance_path:
        sent = sent[step]
    names = ", ".join(quoted(name) for name in itertools.islice(sent, MOST_REASONS))
    return f"Additional properties are not allowed ({names} {'was' if len(sent) == 1 else 'were'} unexpected)"


def json_text(data: Any) -> str:
    """Return data as JSON, with fields that are None. Raises TypeError and ValueError."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except RecursionError:
        raise ValueError("it is nested too deeply for JSON, or holds itself") from None
    return _upper_case(text)


def _without_nulls(text: str) -> str:
    return _upper_case(json.dumps(json.loads(text, object_hook=_present), ensure_ascii=False, separators=(",", ":")))


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in fields.items() if field is not None}


def _upper_case(text: str) -> str:
    """Escapes of control characters in upper case, as in columns, and as Jackson and Spark write them."""
    return (
        _ESCAPE.sub(lambda found: found[0] if found[1] is None else f"\\u{found[1].upper()}", text)
        if "\\u" in text
        else text
    )


def _plain(data: Any) -> Any:
    match data:
        case datetime() | time():
            return data.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return data.isoformat()
        case bytes() | bytearray() | memoryview():
            return b64encode(data).decode()
        case Decimal():
            return int(data) if data == data.to_integral_value() else float(data)
        case Mapping():
            return dict(data)
        case Sequence():
            return list(data)
        case UUID():
            return str(data)
    raise TypeError(f"{type(data).__name__} has no JSON form; make it a dict, a list, text or a number first")


def parsed_schema(text: str, references: Sequence[NamedText] = ()) -> JsonSchema:
    """Parse a schema. Raises InvalidSchemaError for any text that is no JSON schema."""
    try:
        import jsonschema_rs
    except ImportError as cause:
        raise PluginNotFoundError(
            "JSON Schema needs jsonschema-rs; try: pip install 'ottla-serializer-schema-registry[json-schema]'"
        ) from cause
    try:
        schema = json.loads(text)
        resources = [(each.name, json.loads(each.text)) for each in references]
        registry = jsonschema_rs.Registry(resources) if resources else None
        drawn = isinstance(schema, dict) and "$schema" in schema
        make = jsonschema_rs.validator_for if drawn else jsonschema_rs.Draft7Validator
        # A schema of the registry must not make us read files or ask other servers.
        return JsonSchema(schema, make(schema, registry=registry, offline=True))
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None
    except Exception as error:  # jsonschema-rs raises errors of many types for hostile schemas
        raise InvalidSchemaError(f"it is no JSON schema: {type(error).__name__}: {quoted(str(error))}") from error


def title_of(text: str) -> str | None:
    """Return the title of a schema, which is its name for subjects; None without one."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) else None
