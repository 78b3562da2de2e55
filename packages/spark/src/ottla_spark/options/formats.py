"""The options of formats: which serializer makes values or keys of columns, and the settings of that plugin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla import OttlaError
from ottla.config import as_written
from ottla.config.allow_lists import check_file, options_of_others
from ottla.plugins.registry import Registry
from ottla_spark.options.column_formats import JSON, ColumnFormat, Formats
from ottla_spark.options.named_files import PLACE, problems_of_names

VALUE_FORMAT: Final = "value.format"
KEY_FORMAT: Final = "key.format"
OPTION_OF: Final[Mapping[str, str]] = {"key": KEY_FORMAT, "value": VALUE_FORMAT}

_TEXTS: Final = ("{", "[", '"')
"""What the JSON of a schema begins with."""


def read_formats(given: Mapping[str, str], others: Mapping[str, str], problems: list[str]) -> tuple[Formats, set[str]]:
    """Read the formats of the sink's options *given*, and return which of the *others* are settings of their plugins.

    Adds all problems to *problems*.
    """

    @functools.cache
    def registry() -> Registry:
        return Registry()  # lists the plugins, which takes milliseconds: not for json, read twice for each micro-batch

    found = {part: _format(given.get(option), option, registry, problems) for part, option in OPTION_OF.items()}
    keys = {key for each in found.values() if each is not None for key in _plugin_keys(each, registry)}
    settings = {key: value for key, value in others.items() if key in keys}
    problems += [f"option {problem}" for problem in _names(settings)]
    return Formats(value=found["value"], key=found["key"], settings=as_written(settings)), set(settings)


def _format(
    written: str | None, option: str, registry: Callable[[], Registry], problems: list[str]
) -> ColumnFormat | None:
    if written is None:
        return None
    name = written.lower()
    if name == JSON.name:
        return JSON
    if name == "arrow-ipc":
        problems.append(
            f"option {option}={written!r} would repeat the schema in each record, because a record is one row; write "
            "Arrow files, or set json"
        )
        return None
    try:
        registry().plugin("serializer", name)
    except OttlaError as error:
        problems.append(f"option {option}={written!r}: {error}")
        return None
    return ColumnFormat(name=name)


def _plugin_keys(found: ColumnFormat, registry: Callable[[], Registry]) -> Sequence[str]:
    """The keys of a serializer plugin; none for json, which needs no plugin."""
    if found == JSON:
        return []
    try:
        return [key.name for key in registry().plugin("serializer", found.name).config_keys()]
    except OttlaError:  # the driver reports it when it prepares the serializer
        return []


def _names(settings: Mapping[str, str]) -> Sequence[str]:
    """Problems of files and URLs, which the operator of the cluster has to allow."""
    problems: list[str] = []
    with options_of_others(PLACE):
        for key, value in settings.items():
            # Several addresses of a registry are allowed one by one.
            parts = value.split(",") if key.endswith("url") else [value]
            problems += [problem for part in parts for problem in problems_of_names({key: part.strip()}).values()]
            if key.endswith(".schema") and not value.lstrip().startswith(_TEXTS) and ":" not in value:
                try:
                    check_file(value)
                except ValueError as error:
                    problems.append(f"{key}: {error}")
    return problems
