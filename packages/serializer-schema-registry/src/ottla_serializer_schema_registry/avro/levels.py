"""How deep data of an Avro schema can be nested."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def most_levels(schema: Any, named: Mapping[str, Any]) -> float:
    """Return how many records, arrays and maps data of a parsed schema can have within each other, or infinity."""
    try:
        return _Levels(named).of(schema)
    except RecursionError:
        return math.inf


class _Levels:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, float] = {}

    def of(self, schema: Any) -> float:
        if isinstance(schema, list):
            return max(map(self.of, schema), default=0)
        if isinstance(schema, str):
            return self.of(self._named[schema]) if schema in self._named else 0
        match schema["type"]:
            case "record" | "error":
                return self._of_record(schema)
            case "array":
                return 1 + self.of(schema["items"])
            case "map":
                return 1 + self.of(schema["values"])
            case list() | dict() as inner:
                return self.of(inner)
            case str() as name:  # of a whole schema that is the name of another one, too
                return self.of(name)
        return 0

    def _of_record(self, schema: Mapping[str, Any]) -> float:
        name = schema["name"]
        if name not in self._known:
            self._known[name] = math.inf  # what it is for a record that holds itself
            self._known[name] = 1 + max((self.of(field["type"]) for field in schema["fields"]), default=0)
        return self._known[name]
