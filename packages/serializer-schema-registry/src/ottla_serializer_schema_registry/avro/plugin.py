"""The plugin `avro`: its settings, and a serializer of keys or of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, Serializer
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.assembly import configured_serializer
from ottla_serializer_schema_registry.avro.format import AvroFormat

ottla_conformance: Final = "ottla_serializer_schema_registry.conformance.avro:AvroConformance"


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the registry, the schemas and their subjects, and for data."""
    return keys.config_keys()


@hookimpl
def ottla_serializer(config: PluginConfig, is_key: bool) -> Serializer:
    """The serializer named `avro`."""
    schema_format = AvroFormat(ignores_unknown_fields=config[keys.AVRO_IGNORE_UNKNOWN])
    return configured_serializer(config, schema_format, is_key=is_key, name="avro")
