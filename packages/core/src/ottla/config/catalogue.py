"""All keys that the core reads, as data: for reading, for documentation, and to build the sections from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config.option import Option, option_of
from ottla.config.sections import (
    BatchingConfig,
    ConnectionConfig,
    DeliveryConfig,
    MetadataConfig,
    PartitioningConfig,
    ProducerConfig,
    SerializationConfig,
)
from ottla.config.value_types import ValueType, choice, integer
from ottla.config.values import PluginValues

SECTIONS: Final[Mapping[str, Any]] = {
    "connection": ConnectionConfig,
    "metadata": MetadataConfig,
    "batching": BatchingConfig,
    "delivery": DeliveryConfig,
    "partitioning": PartitioningConfig,
    "serialization": SerializationConfig,
}

OPTIONS: Final[Mapping[str, Option]] = {
    found.key: found
    for section in SECTIONS.values()
    for found in map(option_of, attrs.fields(section))
    if found is not None
}
"""The options of all sections by key, in their order."""

COMPRESSION_LEVELS: Final[Mapping[str, Option]] = {
    "gzip": Option(
        key="compression.gzip.level",
        type=choice({str(level): level for level in (-1, *range(1, 10))}),
        default=-1,
        meaning="How hard gzip tries; -1: the codec's own default.",
    ),
    "lz4": Option(
        key="compression.lz4.level",
        type=integer(least=1, most=17),
        default=9,
        meaning="How hard lz4 tries.",
    ),
    "zstd": Option(
        key="compression.zstd.level",
        type=integer(least=-131_072, most=22),
        default=3,
        meaning="How hard zstd tries.",
    ),
}
"""Read only for the codec in use."""

_ANY_LEVEL: Final = integer(least=-(2**31))
_WITHOUT_LEVEL: Final = frozenset({"none", "snappy"})


@attrs.frozen(kw_only=True)
class Row:
    """One key for people to read."""

    key: str
    type: str
    default: str
    meaning: str


def describe() -> tuple[Row, ...]:
    """Every key that the core reads, with what may be written for it; plugins describe their own."""
    return tuple(
        Row(key=each.key, type=each.type.allowed, default=_written(each.default), meaning=each.meaning)
        for each in (*OPTIONS.values(), *COMPRESSION_LEVELS.values())
    )


def level_key(compression_type: str) -> tuple[str, ValueType] | None:
    """The key of this codec's level and what it takes; None for a codec that has no levels."""
    if compression_type in _WITHOUT_LEVEL:
        return None
    known = COMPRESSION_LEVELS.get(compression_type)
    return (known.key, known.type) if known else (f"compression.{compression_type}.level", _ANY_LEVEL)


def build(values: Mapping[str, Any], *, level: int | None, plugin_values: PluginValues) -> ProducerConfig:
    """The configuration from checked values in Kafka's units, one for each of `OPTIONS`."""
    parts = {name: section(**_arguments(section, values)) for name, section in SECTIONS.items()}
    parts["batching"] = attrs.evolve(parts["batching"], compression_level=level)
    return ProducerConfig(**parts, plugin_values=plugin_values)


def _arguments(section: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    found = [(field.name, option_of(field)) for field in attrs.fields(section)]
    return {name: _inside(each, values[each.key]) for name, each in found if each is not None}


def _inside(declared: Option, value: Any) -> Any:
    return None if value is None else declared.type.inside(value)


def _written(default: Any) -> str:
    match default:
        case None | () | "":
            return ""
        case bool():
            return str(default).lower()
        case _:
            return str(default)
