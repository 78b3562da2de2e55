"""The plugin `avro`: its settings, and a serializer of keys or of values."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from typing import Final

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, PluginConfig, Serializer
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.avro import AvroSerializer
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry import SchemaRegistry

ottla_conformance: Final = "ottla_serializer_schema_registry.conformance:AvroConformance"


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the registry, the schemas and their subjects."""
    return keys.config_keys()


@hookimpl
def ottla_serializer(config: PluginConfig, is_key: bool) -> Serializer:
    """The serializer named `avro`."""
    schema_key = keys.KEY_SCHEMA if is_key else keys.VALUE_SCHEMA
    text, latest = config[schema_key], config[keys.LATEST]
    if problems := _problems(config, schema_key):
        raise ConfigError(problems)
    exchanges = Exchanges(config[keys.URL], authorization=_authorization(config), context=_context(config))
    try:
        serializer = AvroSerializer(
            SchemaRegistry(exchanges, normalize=config[keys.NORMALIZE]),
            is_key=is_key,
            text=text,
            register=config[keys.REGISTER] is not False,
            latest=latest,
            strategy=config[keys.STRATEGY],
        )
    except InvalidSchemaError as error:
        raise ConfigError([f"{schema_key}: {error}"]) from error
    if config[keys.STRATEGY] != keys.TOPIC and not serializer.has_name:
        raise ConfigError([f"{keys.STRATEGY}={config[keys.STRATEGY]} needs a {schema_key} that has a name"])
    return serializer


def _problems(config: PluginConfig, schema_key: str) -> Sequence[str]:
    problems = []
    if not config[keys.URL]:
        problems.append(f"{keys.URL}: the serializer avro needs the address of a schema registry")
    problems += [f"{keys.URL}: {wrong}" for wrong in map(keys.address_problem, config[keys.URL]) if wrong is not None]
    if config[schema_key] is None and not config[keys.LATEST]:
        problems.append(f"{schema_key}: write the schema or its file, or {keys.LATEST}=true for that of the registry")
    if config[keys.LATEST] and config[keys.REGISTER]:
        problems.append(f"{keys.REGISTER} and {keys.LATEST} cannot both be true")
    if config[keys.USER_INFO] is not None and config[keys.TOKEN] is not None:
        problems.append(f"{keys.USER_INFO} and {keys.TOKEN} cannot both be set")
    return problems


def _authorization(config: PluginConfig) -> str | None:
    if config[keys.USER_INFO] is not None:
        return f"Basic {base64.b64encode(config[keys.USER_INFO].encode()).decode()}"
    return None if config[keys.TOKEN] is None else f"Bearer {config[keys.TOKEN]}"


def _context(config: PluginConfig) -> ssl.SSLContext | None:
    if not any(address.startswith("https:") for address in config[keys.URL]):
        return None
    try:
        context = ssl.create_default_context(cafile=config[keys.CA])
        if config[keys.CERTIFICATE] is not None:
            context.load_cert_chain(
                config[keys.CERTIFICATE], config[keys.PRIVATE_KEY], config[keys.PRIVATE_KEY_PASSWORD] or ""
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            [f"the files of {keys.CA} and {keys.CERTIFICATE} cannot be used: {type(error).__name__}: {error}"]
        ) from error
    return context
