"""JSON schemas, and data as JSON that is checked against them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any, Final
from urllib.parse import urljoin
from uuid import UUID

from ottla.errors import PluginNotFoundError, printable, quoted
from ottla.plugins.serializers.json import json_text
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.json_schema import nulls
from ottla_serializer_schema_registry.json_schema.paths import Places
from ottla_serializer_schema_registry.nesting import levels_of, too_deep
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
        try:
            text = _text_without_nulls(data)
            problem = self.problem(text)
            if problem is not None:
                fitting = self.with_needed_nulls(nulls.parsed(json_text(data, nulls=True)))
                if fitting is None:
                    raise ValueError(f"it does not fit its JSON schema: {problem}")
                text = fitting
        except RecursionError:
            raise ValueError(too_deep("JSON")) from None
        return text.encode()

    def with_needed_nulls(self, data: Any) -> str | None:
        """Return the text of data that `nulls` parsed, with those null fields that it needs; None if it never fits.

        Raises RecursionError for too many levels.
        """
        return nulls.with_needed_nulls(data, self._lacks)

    def _lacks(self, text: str) -> nulls.Lacks | None:
        sent = _sent(text)
        if self._validator.is_valid(sent):
            return None
        return _lacks(self._validator.iter_errors(sent), Places(sent))

    def problem(self, text: str) -> str | None:
        """Return why a JSON text does not fit, None if it does. What is sent is checked: dates are text there.

        Raises RecursionError for too many levels.
        """
        sent = _sent(text)
        if self._validator.is_valid(sent):
            return None
        reasons, places = [], Places(sent)
        for error in self._validator.iter_errors(sent):
            path, there = places.find(error.instance_path)
            where = "".join(f"[{step!r}]" for step in path)
            reasons.append(f"{where} {_message(error, there)}".strip())
            if len(reasons) == MOST_REASONS:
                break
        return printable("; ".join(reasons))


def _lacks(errors: Iterable[Any], places: Places) -> nulls.Lacks:
    required: set[nulls.Path] = set()
    wrong: set[nulls.Path] = set()
    choices: list[Sequence[nulls.Lacks]] = []
    for error in errors:
        path, _ = places.find(error.instance_path)
        if (name := getattr(error.kind, "property", None)) is not None:  # of `required` alone
            required.add((*path, name))
        elif names := getattr(error.kind, "unexpected", None):
            wrong.update((*path, name) for name in names)
        elif variants := [_lacks(each, places) for each in getattr(error.kind, "context", ()) if each]:
            choices.append(variants)
        else:
            wrong.add(path)
    return nulls.Lacks(required=frozenset(required), wrong=frozenset(wrong), choices=choices)


def _sent(text: str) -> Any:
    """What readers get. Raises RecursionError for more levels than are checked: the library recurses without an end."""
    sent = json.loads(text)
    levels_of(sent)
    return sent


def _message(error: Any, there: Any) -> str:
    """Why data does not fit, as the library says it, and shorter. It does not name properties if none may be there."""
    shown = str(error.message[:MOST_CHARACTERS])
    if not shown.startswith("False schema") or list(error.schema_path)[-1:] != ["additionalProperties"] or not there:
        return shown
    names = ", ".join(quoted(name) for name in itertools.islice(there, MOST_REASONS))
    return f"Additional properties are not allowed ({names} {'was' if len(there) == 1 else 'were'} unexpected)"


def _text_without_nulls(data: Any) -> str:
    """The form of the serializer `json`; the library in C writes it faster where both write the same."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_as_text)
    except (TypeError, ValueError):
        return json_text(data)
    # The word may also be in a text, or be that of an item.
    return json_text(data) if "null" in text else _upper_case(text)


def _as_text(data: Any) -> str:
    """The text that stands for data in JSON. Raises TypeError for data that is no text there."""
    if isinstance(data, (date, time, bytes, bytearray, memoryview, UUID)):
        return json_text(data)[1:-1]
    raise TypeError


def _upper_case(text: str) -> str:
    """Escapes of control characters in upper case, as in columns, and as Jackson and Spark write them."""
    return (
        _ESCAPE.sub(lambda found: found[0] if found[1] is None else f"\\u{found[1].upper()}", text)
        if "\\u" in text
        else text
    )


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
        named = {each.name: json.loads(each.text) for each in references}
        resources = _by_address(named, within=[schema, *named.values()])
        registry = jsonschema_rs.Registry(list(resources.items())) if resources else None
        drawn = isinstance(schema, dict) and "$schema" in schema
        make = jsonschema_rs.validator_for if drawn else jsonschema_rs.Draft7Validator
        # A schema of the registry must not make us read files or ask other servers.
        return JsonSchema(schema, make(schema, registry=registry, offline=True))
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None
    except Exception as error:  # jsonschema-rs raises errors of many types for hostile schemas
        raise InvalidSchemaError(f"it is no JSON schema: {type(error).__name__}: {quoted(str(error))}") from error


def _by_address(named: Mapping[str, Any], within: Sequence[Any]) -> Mapping[str, Any]:
    """The schemas by all addresses that a `$ref` with their name may have: one that is relative is below an `$id`."""
    ids = [each[key] for each in within if isinstance(each, dict) for key in ("$id", "id") if key in each]
    bases = ["", *(each for each in ids if isinstance(each, str))]
    return {urljoin(base, name): schema for base in bases for name, schema in named.items()}


def title_of(text: str) -> str | None:
    """Return the title of a schema, which is its name for subjects; None without one."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) else None
