"""Settings that know where each of them came from, such as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FileLine(str):
    """The source of a setting: a file whose lines have names and values without further marks, and the line."""

    __slots__ = ("line",)

    def __new__(cls, file: str, line: int) -> FileLine:
        """Return the file's text, with the line's number."""
        source = super().__new__(cls, file)
        source.line = line
        return source

    line: int


class EnvironmentVariable(str):
    """The source of a setting: an environment variable, which may be another program's."""

    __slots__ = ()

    def __new__(cls, name: str) -> EnvironmentVariable:
        """Return the text that describes it."""
        return super().__new__(cls, f"environment variable {name}")


class SourcedSettings(dict[str, Any]):
    """A dict of settings; `|` keeps the sources of both sides. A setting that was replaced has no source."""

    def __init__(self, settings: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._sources = {key: (source, settings[key]) for key, source in sources.items()}

    def source_of(self, key: str) -> str | None:
        """Return the source of a setting, None if it is not known."""
        source, value = self._sources.get(key, (None, None))
        return source if value is self.get(key) else None

    def __or__(self, other: Mapping[str, Any]) -> SourcedSettings:  # type: ignore[override]  # any mapping
        if not isinstance(other, Mapping):
            return NotImplemented
        return _merged(self, other)

    def __ior__(self, other: Mapping[str, Any]) -> SourcedSettings:  # type: ignore[override]  # any mapping
        return self | other

    def __ror__(self, other: Mapping[str, Any]) -> SourcedSettings:  # type: ignore[override]  # any mapping
        if not isinstance(other, Mapping):
            return NotImplemented
        return _merged(other, self)


def source_of(settings: Mapping[str, Any], key: str) -> str | None:
    """Return where a setting of a mapping came from, None if that is not known."""
    return settings.source_of(key) if isinstance(settings, SourcedSettings) else None


def _merged(first: Mapping[str, Any], last: Mapping[str, Any]) -> SourcedSettings:
    merged = {**first, **last}
    sources = {key: source_of(last if key in last else first, key) for key in merged}
    return SourcedSettings(merged, {key: source for key, source in sources.items() if source is not None})
