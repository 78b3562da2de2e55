"""The settings in force: each key that a part or a plugin of a producer reads, its value, and where that came from."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from ottla.config.importance import Importance, importance_of
from ottla.config.plugin_choice import GivenPlugin
from ottla.config.values import HIDDEN, brief
from ottla.errors import counted
from ottla.results import html
from ottla.results.value_methods import ValueMethods

DEFAULT: Final = "default"
GIVEN: Final = "given"
"""The source of a setting in a mapping of the program."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SettingInForce(ValueMethods):
    """One setting: its value in Kafka's units, where it came from, its default and meaning.

    `importance` is the one in Java's producer; None if that has no such setting.
    """

    key: str
    value: Any
    source: str
    default: Any
    meaning: str
    importance: Importance | None = attrs.field(init=False)

    @importance.default
    def _importance(self) -> Importance | None:
        return importance_of(self.key)


class SettingsInForce(Mapping[str, Any]):
    """The settings of a producer by Kafka's names, in Kafka's units, defaults included. Read-only.

    A secret that is set is shown as `[hidden]`. Settings that have no effect are left out.
    """

    def __init__(self, settings: Iterable[SettingInForce] = ()) -> None:
        self._settings = {each.key: each for each in settings}

    def __getitem__(self, key: str) -> Any:
        return self._settings[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def source(self, key: str) -> str:
        """Where the value of a key came from: `default`, `given` (in a mapping), a keyword, a file, and so on."""
        return self._settings[key].source

    def all(self) -> tuple[SettingInForce, ...]:
        """All settings, each with its source, default and meaning: those of the core first, then those of plugins."""
        return tuple(self._settings.values())

    def __repr__(self) -> str:
        changed = [each for each in self.all() if each.source != DEFAULT]
        parts = [f"{each.key}={written(each.value)} ({each.source})" for each in changed]
        return f"<{', '.join((*parts, counted(len(self) - len(parts), 'default')))}>"

    def _repr_html_(self) -> str:
        """The settings and their sources for notebooks, those with their defaults folded. Secrets are hidden."""
        changed = [each for each in self.all() if each.source != DEFAULT]
        defaults = [each for each in self.all() if each.source == DEFAULT]
        given = html.table("settings", ("key", "value", "source"), _cells(changed), max_rows=len(changed))
        others = html.table("", ("key", "value", "source"), _cells(defaults), max_rows=len(defaults))
        return f"{given}<details><summary>{len(defaults)} defaults</summary>{others}</details>"


def _cells(settings: Iterable[SettingInForce]) -> Iterator[tuple[str, str, str]]:
    return ((each.key, written(each.value), each.source) for each in settings)


def changes(settings: SettingsInForce) -> str:
    """The settings that do not have their defaults, as one line without the client id."""
    changed = (each for each in settings.all() if each.source != DEFAULT and each.key != "client.id")
    return ", ".join(f"{each.key}={written(each.value)}" for each in changed)


def replaced(settings: SettingsInForce, key: str, value: Any, *, source: str) -> SettingsInForce:
    """The same settings with another value for one of them."""
    return SettingsInForce(
        attrs.evolve(each, value=value, source=source) if each.key == key else each for each in settings.all()
    )


def written(value: Any) -> str:
    """A value as a properties file would have it; a long one is cut, and an object is shown by its repr."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return value if value.isprintable() and len(value) <= _LONGEST else brief(value)
        case list() | tuple():
            return ",".join(map(written, value))
        case _:
            return brief(value)


_LONGEST: Final = 80


def shown(parsed: Any, raw: Any) -> Any:
    """A value of the core as it is shown: *parsed*, or what the user wrote, if it was parsed into objects of ours."""
    if isinstance(parsed, enum.Enum):
        return str(parsed.value)
    if isinstance(parsed, GivenPlugin):
        return parsed.name
    if parsed is None or isinstance(parsed, str | int):
        return parsed
    if isinstance(parsed, tuple) and all(isinstance(each, str | GivenPlugin) for each in parsed):
        return tuple(str(each) for each in parsed)
    return raw


def hidden(value: Any) -> Any:
    """What is shown of a secret."""
    return None if value is None else HIDDEN
