"""Which fields that are null are sent: those that a schema does not let be left out.

Numbers keep the digits with which they were written: no float or int is made of them. Whether a text fits is decided by
the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, TypeAlias

import attrs

from ottla.plugins.serializers.json import json_text

Path: TypeAlias = tuple[str | int, ...]
"""Names of fields and places in arrays, from the outside."""


@attrs.frozen(kw_only=True)
class Lacks:
    """Why a text does not fit: *required* fields that are not there, and the paths of *wrong* values.

    *choices* has an item for each `anyOf` and `oneOf` of which no variant fits: why each of them does not.
    """

    required: frozenset[Path]
    wrong: frozenset[Path]
    choices: Sequence[Sequence[Lacks]] = ()

    def changes(self, nulls: Set[Path], *, adding: bool) -> Set[Path]:
        """The nulls to add, or else to leave out. Of variants, the one with fewest changes counts, if they suffice."""
        wanted = self.required if adding else self.wrong
        return (wanted & nulls).union(*filter(None, self._of_choices(nulls, adding)))

    def _all_changes(self, nulls: Set[Path], adding: bool) -> Set[Path] | None:
        """What makes a variant fit, or None if such changes do not suffice."""
        wanted, other = (self.required, self.wrong) if adding else (self.wrong, self.required)
        chosen = self._of_choices(nulls, adding)
        if other or not wanted <= nulls or None in chosen:
            return None
        return wanted.union(*filter(None, chosen))

    def _of_choices(self, nulls: Set[Path], adding: bool) -> Sequence[Set[Path] | None]:
        return [_fewest([each._all_changes(nulls, adding) for each in variants]) for variants in self.choices]


def _fewest(changes: Sequence[Set[Path] | None]) -> Set[Path] | None:
    possible = [each for each in changes if each is not None]
    return min(possible, key=len, default=None)


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def parsed(text: str) -> Any:
    """Return what a JSON text has, for `with_needed_nulls`."""
    return json.loads(text, parse_float=_Number, parse_int=_Number)


def with_needed_nulls(data: Any, lacks: Callable[[str], Lacks | None]) -> str | None:
    """Return the text of parsed data without those nulls that can be left out; None if it does not fit with any.

    *lacks* says of a text why it does not fit; None if it does.
    """
    every = frozenset(_null_fields(data, ()))
    kept: Set[Path] = frozenset()
    while (found := lacks(text := _text(data, (), kept))) is not None:
        if not (needed := found.changes(every - kept, adding=True)):
            break
        kept |= needed
    else:
        return text
    # A schema may demand a field in other words, such as `minProperties`.
    kept = every
    while (found := lacks(text := _text(data, (), kept))) is not None:
        if not (wrong := found.changes(kept, adding=False)):
            return None
        kept -= wrong
    return text


def _null_fields(data: Any, path: Path) -> Iterator[Path]:
    if isinstance(data, dict):
        for name, field in data.items():
            if field is None:
                yield (*path, name)
            else:
                yield from _null_fields(field, (*path, name))
    elif isinstance(data, list):
        for place, item in enumerate(data):
            yield from _null_fields(item, (*path, place))


def _text(data: Any, path: Path, kept: Set[Path]) -> str:
    """The text with these null fields only."""
    if isinstance(data, dict):
        fields = (
            f"{json_text(name)}:{_text(field, (*path, name), kept)}"
            for name, field in data.items()
            if field is not None or (*path, name) in kept
        )
        return "{" + ",".join(fields) + "}"
    if isinstance(data, list):
        return "[" + ",".join([_text(item, (*path, place), kept) for place, item in enumerate(data)]) + "]"
    return str(data) if isinstance(data, _Number) else json_text(data)
