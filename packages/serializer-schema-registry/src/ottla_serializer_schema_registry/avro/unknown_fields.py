"""Fields of data that its Avro schema lacks. fastavro leaves them out: a misspelled field would be its default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeAlias

from fastavro.validation import validate
from fastavro.write import LOGICAL_WRITERS

from ottla.errors import printable
from ottla_serializer_schema_registry.avro.single_fields import record_of

HINT: Final = "-type"
"""A key of data that says which record of a union it is, for fastavro."""

MOST_SHOWN: Final = 100
"""Characters of a name that an error shows."""

_Check: TypeAlias = Callable[[Any], None]
"""Raises UnknownFieldError for data."""


class UnknownFieldError(ValueError):
    """Data has a field that the schema lacks."""

    def __init__(self, name: object, fields: Sequence[str]) -> None:
        super().__init__()
        near = get_close_matches(name, fields, n=1) if isinstance(name, str) else ()
        self.path = str(name) if isinstance(name, str) else f"[{name!r}]"
        self._hint = f"; did you mean {near[0]!r}?" if near else ""

    def add_parent(self, step: str) -> None:
        """Put the field above, or `[]` for a list or map, before the path."""
        self.path = f"{step}{'' if self.path.startswith('[') else '.'}{self.path}"

    def __str__(self) -> str:
        return f"the schema has no field {printable(self.path, limit=MOST_SHOWN)!r}{self._hint}"


class UnknownFields:
    """Refuses data with a field that a parsed schema lacks. *named* are the named types of the schema."""

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named = named
        self._of_records: dict[str, _Check] = {}
        self._check = self._of(schema)

    def check(self, data: Any) -> None:
        """Raise UnknownFieldError for data with such a field. Data that does not fit for other reasons is ignored."""
        if self._check is not None:
            self._check(data)

    def _of(self, schema: Any) -> _Check | None:
        """The check of a type's data; None if the data has no fields."""
        if isinstance(schema, list):
            return self._of_union(schema)
        if isinstance(schema, str):
            return self._of(self._named[schema]) if schema in self._named else None
        kind = schema["type"]
        if f"{kind}-{schema.get('logicalType')}" in LOGICAL_WRITERS:
            return None  # its data is what the program's own function takes
        match kind:
            case "record" | "error":
                return self._of_record(schema)
            case "array":
                return _of_items(self._of(schema["items"]))
            case "map":
                return _of_values(self._of(schema["values"]))
            case list() | dict() | str():
                return self._of(kind)
        return None

    def _of_record(self, schema: Mapping[str, Any]) -> _Check:
        name = schema["name"]
        if name not in self._of_records:
            self._of_records[name] = lambda data: check(data)  # a record that holds itself
            names = [field["name"] for field in schema["fields"]]
            inner = [(field["name"], self._of(field["type"])) for field in schema["fields"]]
            checks = [(field, each) for field, each in inner if each is not None]
            self._of_records[name] = check = partial(_check_record, names, frozenset((*names, HINT)), checks)
        return self._of_records[name]

    def _of_union(self, branches: Sequence[Any]) -> _Check | None:
        checks = [self._of(branch) for branch in branches]
        given = [each for each in checks if each is not None]
        if len(given) == 1 and len(branches) - branches.count("null") == 1:
            return given[0]
        return partial(self._check_union, branches, checks) if given else None

    def _check_union(self, branches: Sequence[Any], checks: Sequence[_Check | None], data: Any) -> None:
        if isinstance(data, tuple) and len(data) == 2:  # the name of the branch, and its data
            name, data = data
            chosen = next((at for at, branch in enumerate(branches) if self._name_of(branch) == name), None)
        else:
            chosen = self._chosen(branches, data)
        if chosen is not None and (check := checks[chosen]) is not None:
            check(data)

    def _chosen(self, branches: Sequence[Any], data: Any) -> int | None:
        """The branch that fastavro writes: the record with most of the data's fields, or the first other one."""
        chosen, largest = None, -1
        for place, branch in enumerate(branches):
            alone = record_of({"name": "value", "type": branch}, self._named)
            if not validate({"value": data}, alone, raise_errors=False):
                continue
            schema = self._named.get(branch, branch) if isinstance(branch, str) else branch
            if not (isinstance(schema, Mapping) and schema["type"] == "record" and isinstance(data, Mapping)):
                return place
            common = sum(field["name"] in data for field in schema["fields"])
            if common > largest:
                chosen, largest = place, common
        return chosen

    def _name_of(self, branch: Any) -> Any:
        return branch if isinstance(branch, str) else branch.get("name", branch["type"])


def _check_record(names: Sequence[str], known: frozenset[str], checks: Sequence[tuple[str, _Check]], data: Any) -> None:
    if not isinstance(data, Mapping):
        return
    if not data.keys() <= known:
        raise UnknownFieldError(next(name for name in data if name not in known), names)
    for name, check in checks:
        if name in data:
            _check_below(name, check, data[name])


def _of_items(check: _Check | None) -> _Check | None:
    def check_items(data: Any) -> None:
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            for item in data:
                _check_below("[]", check, item)

    return None if check is None else check_items


def _of_values(check: _Check | None) -> _Check | None:
    def check_values(data: Any) -> None:
        if isinstance(data, Mapping):
            for value in data.values():
                _check_below("[]", check, value)

    return None if check is None else check_values


def _check_below(step: str, check: _Check | None, data: Any) -> None:
    if check is None:
        return
    try:
        check(data)
    except UnknownFieldError as error:
        error.add_parent(step)
        raise
