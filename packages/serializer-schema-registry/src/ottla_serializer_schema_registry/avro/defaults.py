"""How much the defaults of a schema write, so that a schema of the registry cannot make a record of any size.

A default `{}` of a record stands for the defaults of its fields. With records inside records, a short schema may stand
for more values than memory holds, or for no end of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOST_VALUES: Final = 100_000
"""Values that the default of one field may write."""


def check_defaults(named: Mapping[str, Any]) -> None:
    """Raise ValueError if the default of a field of these named types writes too many values."""
    counts = _Counts(named)
    for name, schema in named.items():
        for field in schema.get("fields", ()):
            counts.of_field(name, field)


class _Counts:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[tuple[str, str], int | None] = {}

    def of_field(self, record: str, field: Mapping[str, Any]) -> int:
        """The number of values that the field's default writes, 1 without one. Raises ValueError if it is too large."""
        if "default" not in field:
            return 1
        place = record, field["name"]
        if place not in self._known:
            self._known[place] = None
            self._known[place] = self._of(field["type"], field["default"])
        count = self._known[place]
        if count is None or count > MOST_VALUES:
            how_many = "no end of values" if count is None else f"more than {MOST_VALUES} values"
            raise ValueError(f"the default of field {field['name']!r} of {record} stands for {how_many}")
        return count

    def _of(self, kind: Any, value: Any) -> int:
        """The number of values of a type's data, at least 1; with unions, of the branch that has most."""
        if isinstance(kind, list):
            return max((self._of(branch, value) for branch in kind), default=1)
        if isinstance(kind, str):
            kind = self._named.get(kind)
        if not isinstance(kind, Mapping):
            return 1
        match kind["type"], value:
            case (("record" | "error"), Mapping()):
                fields = kind["fields"]
                return 1 + sum(
                    self._of(field["type"], value[field["name"]])
                    if field["name"] in value
                    else self.of_field(kind["name"], field)
                    for field in fields
                )
            case "array", list():
                return 1 + sum(self._of(kind["items"], each) for each in value)
            case "map", Mapping():
                return 1 + sum(self._of(kind["values"], each) for each in value.values())
            case ((list() | Mapping()), _):
                return self._of(kind["type"], value)
        return 1
