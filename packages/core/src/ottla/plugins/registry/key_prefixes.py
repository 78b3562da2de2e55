"""The first words of a plugin's keys, by the convention for names: known without loading the plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.kinds import KINDS, KindName

_WORDS_OF_KAFKA: Final[Mapping[KindName, str]] = {"authenticator": "sasl.", "compressor": "compression."}
"""The first word of Kafka's keys for a kind; a plugin's name may follow it, as in `compression.zstd.level`."""
_COMMON: Final = frozenset({"ottla", *KINDS})


def prefixes_of_name(name: str) -> tuple[str, ...]:
    """The beginnings of the keys of a plugin with this name, which may be `package:name`."""
    plain = name.strip().lower().rpartition(":")[2]
    return (f"{plain}.", f"{re.sub('[-_]', '.', plain)}.")


def prefix_of(info: EntryInfo, key: str) -> str | None:
    """The longest beginning of a key that names this plugin or its package; None if it names neither."""
    return max((prefix for prefix in _prefixes(info) if key.startswith(prefix)), key=len, default=None)


def _prefixes(info: EntryInfo) -> Iterator[str]:
    word = _WORDS_OF_KAFKA.get(info.kind.name)
    for prefix in (*prefixes_of_name(info.name), *_prefixes_of_package(info.package)):
        yield prefix
        if word is not None:
            yield word + prefix


def _prefixes_of_package(package: str) -> Iterator[str]:
    """`acme.` for a package `acme` or `ottla-transport-acme`."""
    words = [word for word in package.split("-") if word not in _COMMON]
    if words:
        yield ".".join(words) + "."
