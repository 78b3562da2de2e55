"""Where in data an error of jsonschema-rs is.

It makes a number of each name that is one, such as 7 of `007`, and leaves out names that are empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ottla_serializer_schema_registry.json_schema.nulls import Path


class Places:
    """The paths of the errors in data, with the names that the data has."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._odd: dict[
            int, Mapping[str, Sequence[str]]
        ] = {}  # of each object: it may have very many, and as many errors

    def find(self, steps: Sequence[str | int]) -> tuple[Path, Any]:
        """Return the path of these steps, and what is there; the steps and None if no path has them."""
        return next(self._ways(self._data, steps, ()), (tuple(steps), None))

    def _ways(self, data: Any, steps: Sequence[str | int], path: Path) -> Iterator[tuple[Path, Any]]:
        if not steps:
            yield path, data
        elif isinstance(data, dict):
            for name in self._names(data, steps[0]):
                yield from self._ways(data[name], steps[1:], (*path, name))
            if "" in data:
                yield from self._ways(data[""], steps, (*path, ""))
        elif isinstance(data, list) and isinstance(steps[0], int) and steps[0] < len(data):
            yield from self._ways(data[steps[0]], steps[1:], (*path, steps[0]))

    def _names(self, data: dict[str, Any], step: str | int) -> Iterator[str]:
        name = str(step)
        if name in data:
            yield name
        if isinstance(step, int):
            if id(data) not in self._odd:
                self._odd[id(data)] = _odd_numbers(data)
            yield from self._odd[id(data)].get(name, ())


def _odd_numbers(names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The names that are numbers with zeros or a plus sign before them, by these numbers."""
    found = defaultdict(list)
    for name in names:
        if name.startswith(("0", "+")) and name != "0":
            found[name.lstrip("+0") or "0"].append(name)
    return found
