"""All keys of the core as data: for reading, for documentation, and to build the sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ottla.config.option import Option, option_of
from ottla.config.producer_config import (
    BatchingConfig,
    ConnectionConfig,
    DeliveryConfig,
    MetadataConfig,
    ObservationConfig,
    PartitioningConfig,
    ProducerConfig,
    ReferencesConfig,
    SerializationConfig,
    TransactionsConfig,
)
from ottla.config.values import PluginValues

SECTIONS: Final[Mapping[str, Any]] = {
    "connection": ConnectionConfig,
    "metadata": MetadataConfig,
    "batching": BatchingConfig,
    "delivery": DeliveryConfig,
    "transactions": TransactionsConfig,
    "partitioning": PartitioningConfig,
    "serialization": SerializationConfig,
    "observation": ObservationConfig,
    "references": ReferencesConfig,
}

OPTIONS: Final[Mapping[str, Option]] = {
    found.key: found
    for section in SECTIONS.values()
    for found in map(option_of, attrs.fields(section))
    if found is not None
}
"""The options of all sections by key, in their order."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Row:
    """One key for the documentation."""

    key: str
    type: str
    default: str
    meaning: str


def describe() -> tuple[Row, ...]:
    """Every key of the core with its allowed values; plugins describe their own."""
    return tuple(
        Row(key=each.key, type=each.type.allowed, default=_written(each.default), meaning=each.meaning)
        for each in OPTIONS.values()
    )


def build(values: Mapping[str, Any], *, plugin_values: PluginValues) -> ProducerConfig:
    """Build the configuration from checked values in Kafka's units, one for each of `OPTIONS`."""
    parts = {name: section(**_arguments(section, values)) for name, section in SECTIONS.items()}
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
