"""Arrow columns as JSON texts that fit a schema.

Most schemas say no more than types: the Arrow type and the nulls of a column then show at once whether it fits. Where
a schema says more (`minimum`, `pattern`, `oneOf` ...), each row is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import RowSerializationError, quoted
from ottla.plugins.serializers import json_columns
from ottla.plugins.serializers.packed_columns import unpacked, unpacked_type
from ottla_serializer_schema_registry.arrow_columns import LISTS, is_one_of, shown, within
from ottla_serializer_schema_registry.json_schema.nulls import parsed
from ottla_serializer_schema_registry.json_schema.schema import JsonSchema
from ottla_serializer_schema_registry.nesting import too_deep

_NOTES: Final = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
"""Keywords that no value violates."""

_TYPES: Final = frozenset((*_NOTES, "type", "properties", "required", "additionalProperties", "items"))
"""Keywords that the Arrow type and the nulls of a column decide."""


def texts(schema: JsonSchema, column: Any, *, rows: json_columns.JsonRows | None) -> Any:
    """Return the JSON of each row, null where the row is.

    Raises TypeError for a type of column that does not fit, and RowSerializationError for rows.
    """
    problem = json_columns.problem(column.type) or type_problem(schema.schema, column.type, "")
    if problem is not None:
        raise TypeError(problem)
    made = json_columns.texts(column, rows=rows)
    return made if certainly_fits(schema.schema, column) else _checked(schema, column, made)


def _checked(schema: JsonSchema, column: Any, made: Any) -> Any:
    """The rows, checked one by one. One that does not fit without its nulls may fit with them."""
    texts, problems = made.to_pylist(), {}
    for row, text in enumerate(texts):
        try:
            if text is None or (problem := schema.problem(text)) is None:
                continue
            fitting = schema.with_needed_nulls(_with_nulls(parsed(text), column.type))
        except RecursionError:
            problems[row] = too_deep("JSON")
            continue
        if fitting is None:
            problems[row] = f"it does not fit its JSON schema: {problem}"
        else:
            texts[row] = fitting
    if problems:
        raise RowSerializationError(problems)
    return pa.array(texts, made.type)


def _with_nulls(data: Any, kind: Any) -> Any:
    """The parsed JSON of a cell with the fields that its Arrow type has, and its text not: they are null."""
    packed = unpacked_type(kind)
    if packed is not None:
        return _with_nulls(data, packed)
    if isinstance(data, dict) and pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return {field.name: _with_nulls(data.get(field.name), field.type) for field in fields}
    if isinstance(data, dict):
        return {name: _with_nulls(item, kind.item_type) for name, item in data.items()}
    return [_with_nulls(item, kind.value_type) for item in data] if isinstance(data, list) else data


def type_problem(schema: Any, kind: Any, path: str) -> str | None:
    """Return why no column of this Arrow type fits, as far as types show, or None if it may fit."""
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return None
    packed = unpacked_type(kind)
    if packed is not None:
        return type_problem(schema, packed, path)
    its_type = json_type(kind)
    wanted = schema.get("type")
    allowed = [wanted] if isinstance(wanted, str) else wanted
    # A number without decimal places is an integer for JSON Schema.
    likely = {"integer": {"integer", "number"}, "number": {"integer", "number"}}.get(its_type, {its_type})
    if isinstance(allowed, list) and its_type != "null" and not likely & set(map(str, allowed)):
        return f"{shown(path)} of type {kind} is {its_type} in JSON, where its schema says {' or '.join(allowed)}"
    if pa.types.is_struct(kind):
        return _object_problem(schema, kind, path)
    return type_problem(schema.get("items"), kind.value_type, f"{path}[]") if its_type == "array" else None


def _object_problem(schema: Mapping[str, Any], kind: Any, path: str) -> str | None:
    has = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return None
    for name in schema.get("required", ()):
        if name not in has:
            return f"there is no column for {quoted(within(path, name))}, which its schema requires"
    for name, field in has.items():
        where = within(path, name)
        if name in properties:
            if problem := type_problem(properties[name], field, where):
                return problem
        elif schema.get("additionalProperties", True) is False and "patternProperties" not in schema:
            return f"column {where!r} is not in its JSON schema, which allows no other properties: leave it out"
    return None


def certainly_fits(schema: Any, column: Any) -> bool:
    """Return whether the types and the nulls of a column prove that all its rows fit."""
    if schema is True or schema == {}:
        return True
    if not isinstance(schema, Mapping) or not schema.keys() <= _TYPES:
        return False
    kind = column.type
    if unpacked_type(kind) is not None:
        return certainly_fits(schema, unpacked(column))
    if not _has_type(schema, column):
        return False
    if pa.types.is_struct(kind):
        return _fields_fit(schema, column)
    if json_type(kind) == "array" and "items" in schema:
        items = _plain(column.flatten())
        return (not items.null_count or _takes_null(schema["items"])) and certainly_fits(schema["items"], items)
    # The names of a map's items are not known before each row is seen.
    return not pa.types.is_map(kind) or not {"properties", "required", "additionalProperties"} & schema.keys()


def _takes_null(schema: Any) -> bool:
    """Return whether a schema certainly takes a null."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _TYPES:
        return schema is True
    return "type" not in schema or "null" in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"])


def _has_type(schema: Mapping[str, Any], column: Any) -> bool:
    if "type" not in schema:
        return True
    wanted = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    its_type = json_type(column.type)
    if its_type == "number":  # those that JSON lacks are written as text
        return "number" in wanted and bool(
            pa.types.is_decimal(column.type) or pc.all(pc.is_finite(column), min_count=0).as_py()
        )
    return its_type in wanted or (its_type == "integer" and "number" in wanted)


def _fields_fit(schema: Mapping[str, Any], column: Any) -> bool:
    properties = schema.get("properties", {})
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    if len(set(names)) < len(names):
        return False
    fields = dict(zip(names, map(_plain, column.flatten()), strict=True))
    below = column.null_count
    for name, field in fields.items():
        required = name in schema.get("required", ())
        # A null field is left out; below a struct that is null itself, it does not count.
        if required and field.null_count > below:
            return False
        if not certainly_fits(properties.get(name, schema.get("additionalProperties", True)), field):
            return False
    return set(schema.get("required", ())) <= fields.keys()


def _plain(column: Any) -> Any:
    """The cells of a column that may be packed: the nulls of a dictionary's or a run's values are known only then."""
    while unpacked_type(column.type) is not None:
        column = unpacked(column)
    return column


def json_type(kind: Any) -> str:
    """Return the JSON type of an Arrow type's values."""
    packed = unpacked_type(kind)
    if packed is not None:
        return json_type(packed)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "object"
    if is_one_of(kind, *LISTS):
        return "array"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "null" if pa.types.is_null(kind) else "string"


def json_schema(kind: Any, *, title: str) -> str:
    """Return the JSON schema of an Arrow type, with a title.

    A field that may be null may be left out. An item of a list or a map that may be null is null.
    """
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_schema(kind)})


def _schema(kind: Any) -> Mapping[str, Any]:
    packed = unpacked_type(kind)
    if packed is not None:
        return _schema(packed)
    made: dict[str, Any] = {"type": json_type(kind)}
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        made["properties"] = {field.name: _schema(field.type) for field in fields}
        made["required"] = [field.name for field in fields if not field.nullable]
    elif pa.types.is_map(kind):
        made["additionalProperties"] = _schema_of_items(kind.item_field)
    elif made["type"] == "array":
        made["items"] = _schema_of_items(kind.value_field)
    return made


def _schema_of_items(items: Any) -> Mapping[str, Any]:
    made = _schema(items.type)
    may_be_null = items.nullable and made["type"] != "null"
    return {**made, "type": [made["type"], "null"]} if may_be_null else made
