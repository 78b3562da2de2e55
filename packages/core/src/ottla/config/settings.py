"""Settings from files and from the environment, and the settings in force.

`from_file`, `from_environment` and `read` return a mapping with Kafka's names, to which a program may add its own
settings: `Producer(settings.from_file("producer.properties") | {"client.id": "orders"})`. Values whose names look
secret are wrapped, so that the mapping's repr does not show them. The producer checks everything else.
"""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.config.in_force import SettingInForce, SettingsInForce
from ottla.config.properties import MAX_NAME, check_encoding, numbered_settings
from ottla.config.values import is_secret
from ottla.errors import ConfigError, printable, with_article
from ottla.errors.robust_logger import robust_logger
from ottla.errors.secret import Secret, SourcedSecret
from ottla.errors.setting_sources import EnvironmentVariable, FileLine, SourcedSettings

__all__ = ["SettingInForce", "SettingsInForce", "from_environment", "from_file", "read"]

_OTHER_FORMAT: Final = re.compile(rb"(?:\s++|[#!;][^\r\n]*+)*+(?P<start>[{\[])")
"""The first character that is in no comment."""

_log = robust_logger(__name__)

_SCALARS: Final = (str, bool, int, float)


def from_file(path: str | os.PathLike[str], *, table: str | None = None) -> dict[str, Any]:
    """Return the settings in a file: TOML if its name ends in `.toml`, else a properties file as Java reads it.

    In TOML, `linger.ms = 5`, `"linger.ms" = 5` and `ms = 5` in the table `linger` are the same setting. *table* names
    the table to read, such as `"kafka.producer"`; by default it is the whole file. Raises ConfigError if the file
    cannot be read; the error quotes no value.
    """
    file = Path(path)
    source = f"file {printable(str(file))}"
    try:
        is_toml = file.suffix.lower() == ".toml"
        if table is not None and not is_toml:
            raise ValueError("a properties file has no tables")
        content = file.read_bytes()
        check_encoding(content)
        if is_toml:
            entries = _entries(_table(tomllib.loads(content.decode().replace("\r\n", "\n")), table))
            return _protected(entries, dict.fromkeys(entries, source))
        _refuse_other_formats(content)
        _warn_of_utf_8(content, file)
        numbered = list(numbered_settings(content.decode("iso-8859-1")))  # as java.util.Properties
        return _protected(
            {key: value for _line, key, value in numbered},
            {key: FileLine(source, line) for line, key, _value in numbered},
        )
    except RecursionError:
        problem = f"{printable(str(file))} cannot be read: its tables or arrays are nested too deeply"
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError among them
        text = error.strerror if isinstance(error, OSError) else str(error)
        problem = f"{printable(str(file))} cannot be read: {printable(text or type(error).__name__)}"
    raise ConfigError([problem])  # outside the except block: the frames of the cause hold the file's text


def _refuse_other_formats(content: bytes) -> None:
    """Raise ValueError for JSON and INI, whose lines would be settings with strange names."""
    if found := _OTHER_FORMAT.match(content):
        kind = "JSON" if found["start"] == b"{" else "an INI file or JSON"
        raise ValueError(f"it begins as {kind}; it must be a properties file, or TOML with a name that ends in .toml")


def _warn_of_utf_8(content: bytes, file: Path) -> None:
    """Warn of a properties file in UTF-8: its characters would be others, for example in a password."""
    if content.isascii():
        return
    with contextlib.suppress(UnicodeDecodeError):
        content.decode()
        _log.warning(
            "%s is read as ISO 8859-1, as Java reads properties files, and seems to be UTF-8: write characters that "
            "are not ASCII as \\u00e4, or use a file of TOML",
            printable(str(file)),
        )


def from_environment(prefix: str, environment: Mapping[str, str] | None = None) -> dict[str, str | Secret[str]]:
    """Return the settings in environment variables that begin with *prefix*, for example `"SHOP_KAFKA_"`.

    After the prefix, `_` stands for a dot and `__` for an underscore; case does not matter: `SHOP_KAFKA_LINGER_MS` is
    `linger.ms`. The prefix must belong to the producer. With `"KAFKA_"`, the variable `KAFKA_HOME` of Kafka's scripts
    would be the unknown setting `home`, and so would `KAFKA_PORT`, which Kubernetes sets for a Service that is called
    kafka. Raises ConfigError if two variables are the same setting.
    """
    if not prefix:
        raise ConfigError(["the prefix is empty: every environment variable would be a setting"])
    variables = os.environ if environment is None else environment
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name in sorted(variables):
        if not name.startswith(prefix) or name == prefix:
            continue
        key = _dotted(name.removeprefix(prefix))
        if key in found:
            raise ConfigError([f"{key} is given twice, the second time by the environment variable {printable(name)}"])
        found[key] = variables[name]
        sources[key] = EnvironmentVariable(printable(name))
    return _protected(found, sources)


def read(
    *sources: str | os.PathLike[str] | Mapping[str, Any], environment: str | None = None, table: str | None = None
) -> dict[str, Any]:
    """Return the settings of all sources: paths of files, mappings, and variables whose names begin with *environment*.

    A later source replaces settings of earlier ones, and the environment comes last. Files are read as by `from_file`;
    *table* is for those in TOML. Raises ConfigError, also for a source that is neither a path nor a mapping.
    """
    found = SourcedSettings({}, {})
    for source in sources:
        if isinstance(source, Mapping):
            found |= source
        elif isinstance(source, str | os.PathLike):
            is_toml = Path(source).suffix.lower() == ".toml"
            found |= from_file(source, table=table if is_toml else None)
        else:
            raise ConfigError(
                [f"settings are read from a path or a mapping, not from {with_article(type(source).__name__)}"]
            )
    return found if environment is None else found | from_environment(environment)


def _dotted(name: str) -> str:
    return "_".join(part.replace("_", ".") for part in name.lower().split("__"))


def _table(document: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return the table of this dotted name. Raises ValueError if there is none."""
    for part in [] if name is None else name.split("."):
        inner = document.get(part)
        if not isinstance(inner, Mapping):
            raise ValueError(f"it has no table {name!r}")
        document = inner
    return document


def _entries(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a table with their dotted names. Raises ValueError for duplicates and other values."""
    entries: dict[str, Any] = {}
    for key, value in _flat(table, ""):
        if len(key) > MAX_NAME:
            raise ValueError(f"the name of a setting has {len(key)} characters")
        if key in entries:
            raise ValueError(f"{key!r} is given twice")
        entries[key] = value
    return entries


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, Mapping):
            yield from _flat(value, f"{key}.")
        elif isinstance(value, _SCALARS) or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            yield key, value
        else:
            raise ValueError(f"{key!r} must be a text, a number, true, false, or a list of texts")


def _protected(settings: Mapping[str, Any], sources: Mapping[str, str]) -> SourcedSettings:
    protected = {
        key: SourcedSecret(value, sources[key]) if is_secret(key) else value for key, value in settings.items()
    }
    return SourcedSettings(protected, sources)
