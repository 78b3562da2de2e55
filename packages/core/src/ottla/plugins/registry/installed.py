"""The installed plugins, found without loading any of them."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from ottla.errors import PluginError, printable
from ottla.errors.plugin_origin import PluginOrigin
from ottla.errors.robust_logger import robust_logger
from ottla.errors.too_many_open_files import REMEDY, none_left
from ottla.plugins.registry.kinds import BUILT_IN, KINDS, Kind
from ottla.results.value_methods import ValueMethods

if TYPE_CHECKING:  # `importlib.metadata` reads zip files and mail headers: the first producer imports it
    from importlib.metadata import Distribution, EntryPoint

_log = robust_logger(__name__)

_NAMELESS: Final = "an unnamed distribution"
_GROUPS: Final = frozenset(kind.group for kind in KINDS.values())


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EntryInfo(ValueMethods):
    """One plugin as its distribution announces it; `value` is the object to import."""

    kind: Kind
    name: str
    value: str
    distribution: str
    version: str
    entry_point: EntryPoint = attrs.field(repr=False, eq=False)

    @property
    def package(self) -> str:
        """The distribution's name in the form of PEP 503; "" if its metadata has no name."""
        return "" if self.distribution == _NAMELESS else normal(self.distribution)

    @property
    def qualified_name(self) -> str:
        """`package:name`, which names the plugin also where several packages have one of this name."""
        return f"{self.package}:{self.name}" if self.package else self.name

    @property
    def built_in(self) -> bool:
        """Whether the plugin is one of Ottla's own packages."""
        return self.package in BUILT_IN

    def __str__(self) -> str:
        origin = f"{self.distribution} {self.version}".strip()
        return f"{self.kind.name} {self.name!r} of {origin} ({printable(self.value)})"

    @property
    def origin(self) -> PluginOrigin:
        """The plugin in errors about an object that it made."""
        return PluginOrigin(
            str(self), f"report it to the authors of {self.distribution}, or set {self.kind.setting} to another one"
        )


def announced() -> Sequence[EntryPoint]:
    """The entry points of our groups in all distributions on `sys.path`.

    `importlib.metadata.entry_points` fails for all packages if one line of one entry_points.txt is wrong; here the
    other lines count, and a file that cannot be read is left out with a warning. Of two copies of a distribution the
    first on the path counts, as in imports. The result is cached until a package is added or removed, or `sys.path`
    changes: reading everything takes some 15 ms, and each task of Spark may make a producer.
    """
    global _last
    now = _path()
    if _last is not None and _last[0] == now:
        return _last[1]
    _check_files()
    found = _announced()
    _check_files()  # the library skips what it cannot read: without free files it would seem that nothing is installed
    newest = max((changed for _folder, changed in now), default=0)
    _last = (now, found) if time.time_ns() - newest > _INSTALLING_NS else None
    return found


_INSTALLING_NS: Final = 5_000_000_000
"""A folder that changed just now may be in the middle of an installation that does not change its time again."""

_Path = tuple[tuple[str, int], ...]
_last: tuple[_Path, Sequence[EntryPoint]] | None = None


def _check_files() -> None:
    if (error := none_left()) is not None:
        raise PluginError(f"the installed plugins cannot be read: {error}; {REMEDY}") from error


def _path() -> _Path:
    """The folders of `sys.path`, with the times of their last changes."""
    return tuple((folder, _changed(folder)) for folder in sys.path)


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return -1


def _announced() -> Sequence[EntryPoint]:
    found: dict[str, list[EntryPoint]] = {}
    for distribution in _distributions():
        ours = [entry for entry in _entry_points(distribution) if entry.group in _GROUPS]
        if ours:
            name = _origin(distribution)[0]
            # Packages without a name are no copies of each other.
            found.setdefault(f"{name} {len(found)}" if name == _NAMELESS else normal(name), ours)
    return tuple(entry for entries in found.values() for entry in entries)


def entry_point(group: str, name: str) -> EntryPoint | None:
    """Return the first entry point of this name in a group that is none of plugins; None if there is none."""
    found = (
        entry
        for distribution in _distributions()
        for entry in _entry_points(distribution)
        if entry.group == group and entry.name == name
    )
    return next(found, None)


def misplaced() -> Sequence[EntryPoint]:
    """Entry points whose group is similar to ours but is not one: they will never be used."""
    return [
        entry
        for distribution in _distributions()
        for entry in _entry_points(distribution)
        if entry.group.startswith("ottla.") and entry.group not in _GROUPS
    ]


def entries(kind: Kind, entry_points: Iterable[EntryPoint]) -> tuple[EntryInfo, ...]:
    """The plugins of one kind sorted by name, without duplicate announcements."""
    infos = [_info(kind, entry) for entry in entry_points if entry.group == kind.group]
    return tuple(sorted(dict.fromkeys(infos), key=lambda info: (info.name.lower(), info.package)))


def _distributions() -> Iterator[Distribution]:
    from importlib.metadata import distributions

    try:
        yield from distributions()
    except Exception as error:  # an import hook of another package may list what it finds, and fail
        _log.warning("the installed packages cannot be listed completely: %s: %s", type(error).__name__, error)


def _entry_points(distribution: Distribution) -> Sequence[EntryPoint]:
    try:
        return distribution.entry_points
    except Exception:  # of one line, in any group
        from ottla.plugins.registry.entry_points import read_entry_points

        try:
            text = distribution.read_text("entry_points.txt")
        except Exception as error:
            _log.warning("the entry points of %s cannot be read: %s", _place(distribution), error)
            return ()
        found, wrong = read_entry_points(text or "", distribution)
    if wrong:
        lines = f"not name = value: {', '.join(map(printable, wrong))}"
        _log.warning("the entry points of %s cannot be read: %s", _place(distribution), lines)
    return found


def _place(distribution: Distribution) -> str:
    """A damaged distribution's name, and the folder in which it is installed."""
    try:
        folder = str(distribution.locate_file(""))
    except Exception:
        folder = "an unknown folder"
    return f"{_origin(distribution)[0]} in {folder}"


def _info(kind: Kind, entry: EntryPoint) -> EntryInfo:
    name, version = _origin(entry.dist)
    return EntryInfo(
        kind=kind, name=entry.name, value=entry.value, distribution=name, version=version, entry_point=entry
    )


@functools.lru_cache(maxsize=512)
def _origin(distribution: Distribution | None) -> tuple[str, str]:
    """The name and version of a distribution; its metadata may be damaged."""
    try:
        name, version = (distribution.name, distribution.version) if distribution else (None, None)
    except Exception:
        name, version = None, None
    return printable(name or _NAMELESS), printable(version or "")


def normal(name: str) -> str:
    """The name of a distribution in the form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
