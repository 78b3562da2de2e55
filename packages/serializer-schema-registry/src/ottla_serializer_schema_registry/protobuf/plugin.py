"""The plugin `protobuf`: its settings, and a serializer of keys or of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, Serializer
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.assembly import options_of, problems_of, raise_problems, registry_of
from ottla_serializer_schema_registry.protobuf.schema import message_class
from ottla_serializer_schema_registry.protobuf.serializer import protobuf_serializer

ottla_conformance: Final = "ottla_serializer_schema_registry.conformance.protobuf:ProtobufConformance"


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the registry, the classes of messages and their subjects."""
    return keys.config_keys()


@hookimpl
def ottla_serializer(config: PluginConfig, is_key: bool) -> Serializer:
    """The serializer named `protobuf`."""
    part = "key" if is_key else "value"
    schema_key = keys.KEY_SCHEMA if is_key else keys.VALUE_SCHEMA
    problems = list(problems_of(config, name="protobuf", part=part))
    if config[schema_key] is None:
        problems.append(f"{schema_key}: give the generated class of the messages, or module:Class")
    raise_problems(problems)
    try:
        made = message_class(config[schema_key])
    except ValueError as error:
        raise ConfigError([f"{schema_key}: {error}"]) from error
    return protobuf_serializer(registry_of(config), made, options=options_of(config, part=part))
